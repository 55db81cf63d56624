"""One peer on a real network: asks others for their models, answers for its own, and never waits for everybody.

Rules: a pull gives the model its owner had at the start of a round, whole and signed, or nothing; a model that has
not changed is not sent again; an update is acknowledged or lost, never half applied; one who breaks the rules is
struck, paused, put in quarantine. In lock-step a peer plays round r with everybody's models of round r, and collects
once all have pushed: the same numbers as in one process.
"""

import zenoh

from federico.exchange.base import Traffic, Updates
from federico.exchange.conduct import Conduct
from federico.exchange.limits import Limits
from federico.exchange.membership import Membership
from federico.exchange.roster import Roster
from federico.learning.bank import Bank, Visits
from federico.wire.seal import Seal


class ZenohExchange:
    """The exchange of the one peer that this process hosts. A context manager: leaving it leaves the network."""

    traffic: Traffic
    conduct: Conduct
    membership: Membership
    round: int
    """The round being played, or the next one; set it before the first pull to go on after a restart."""

    def __init__(
        self,
        bank: Bank,
        participants: int,
        *,
        session: zenoh.Session,
        roster: Roster,
        me: str,
        seal: Seal,
        limits: Limits,
        wire: str | None = None,
        lockstep: bool = False,
    ) -> None:
        """`bank` holds the model of `me` alone; `wire` is the type of number sent, the model's own if none is given."""
        raise NotImplementedError

    def pull(self, wanted: Visits) -> Visits:
        """See `Exchange.pull`. Offers the own model as it is now to others, under the number of this round."""
        raise NotImplementedError

    def lend(self, visits: Visits) -> Visits:
        """See `Exchange.lend`. A model whose owner is away is the last one it gave."""
        raise NotImplementedError

    def push(self, updates: Updates) -> None:
        """See `Exchange.push`. Returns when all are acknowledged, refused, or the deadline has passed."""
        raise NotImplementedError

    def collect(self) -> Updates:
        """See `Exchange.collect`. The round ends here."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop answering. The session stays open: it is whoever opened it that closes it."""
        raise NotImplementedError
