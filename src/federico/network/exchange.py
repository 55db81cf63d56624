"""The exchange of one peer on a real network: it never waits for everybody.

Rules: a pull gives the model its owner had at the start of a round, whole and signed, or nothing; a
model that has not changed is not sent again; an update is acknowledged or lost, never half applied;
a peer that breaks the rules is paused, then put in quarantine; one that says nothing is not waited
for once the others have come, and left alone for a while. In lock-step a peer plays round r
with everybody's models of round r, and collects once all have pushed: the numbers are those of a
simulation. A peer's own row is served where it lies; it changes only after `collect`.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import zenoh

from federico.errors import ProtocolError, SignedProtocolError
from federico.exchange.protocol import Purpose, Traffic, Updates
from federico.learning.bank import Bank
from federico.learning.rows import RowFile
from federico.learning.visits import Visits
from federico.network.allowance import log_flood
from federico.network.client import Deadline, OwnerClient, RequestSender
from federico.network.limits import Limits
from federico.network.model_store import ModelStore
from federico.network.pace import Pace
from federico.network.presence import Presence
from federico.network.protocol import OwnLengths, Terms
from federico.network.reputation import Reputation
from federico.network.roster import Roster
from federico.network.server import PeerServer
from federico.network.update_store import UpdateStore
from federico.network.waits import Waits
from federico.network.wire.encoding import square_sum
from federico.network.wire.messages import LATEST, RefusedError
from federico.network.wire.schema import ModelSchema
from federico.network.wire.signing import Signer
from federico.types import Array, IntArray

log = logging.getLogger(__name__)

MOST_TRANSFERS = 16
"""Transfers with this many peers go on side by side: a slow one holds up nobody."""
POLL_SECONDS = 0.1
"""Seconds between two looks at whether only mute peers are left to wait for."""
MUTE_TIMES = 2.0
"""A peer that has not said a word is waited for this many times as long as others took in all."""
INCARNATION_BITS = 63


class NetworkExchange:
    """The exchange of the one peer that this process hosts."""

    def __init__(
        self,
        bank: Bank,
        participants: int,
        *,
        session: zenoh.Session,
        roster: Roster,
        me: str,
        signer: Signer,
        limits: Limits,
        lockstep: bool = False,
        folder: Path | None = None,
        flooded: Callable[[str], object] = log_flood,
    ) -> None:
        """`bank` holds the model of `me` alone; updates wait in `folder` until collected.

        `flooded` is called with the name of a member that sends far more than is answered.
        """
        schema = ModelSchema.of_layout(bank.layout, limits.precision, bank.row_layout)
        incarnation = secrets.randbits(INCARNATION_BITS)
        terms = Terms(me, roster, schema, limits, signer, incarnation)
        plan = terms.chunk_plan  # refuses chunks that are too small for the model

        if not terms.blames(signed=False):
            flooded = log_flood  # through a relay anybody's name may be used

        self.traffic = Traffic(participants)
        self.reputation = Reputation(limits)
        self.presence = Presence(session, roster, me, flooded=flooded)
        self.waits = Waits()
        self.pace = Pace()
        self._bank = bank
        self._terms = terms
        self._lockstep = lockstep
        self._folder = folder
        # A peer that fetches for longer has given up itself.
        self._models = ModelStore(plan, schema.wire, folder, longest=limits.deadline)
        self._updates = UpdateStore(plan, schema.dtype, folder)
        self._server = PeerServer(
            session, terms, self._models, self._updates, self.reputation, self.traffic, flooded
        )
        self._sender = RequestSender(session, limits)
        self._owners: dict[int, OwnerClient] = {}
        for number in range(len(roster.members)):
            if number != terms.number:
                self._owners[number] = OwnerClient(
                    terms, number, self._sender, self.presence, self.traffic, folder
                )

        self._published = 0
        self._withheld = False
        """Whether nobody gets this peer's model."""
        self._predicted_with: IntArray = np.empty(0, dtype=np.int64)
        """The owners whose models were last read for an evaluation."""
        self._own_update: tuple[float, RowFile] | None = None
        self._longest_own = 0.0
        self._own_length = 0.0
        """Length of the last own update, by which those of others are measured."""

        self._closing = ExitStack()
        self._closing.callback(self.presence.close)
        self._closing.callback(self._server.close)
        self._closing.callback(self._sender.stop_waiting)

    def withhold(self, owners: IntArray) -> None:
        """See `Exchange.withhold`: from now on this peer refuses everybody its model."""
        if self._terms.number in owners:
            self._withheld = True
            self._server.withhold()

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """See `Exchange.pull`. Offers the own model, as it is now, to others."""
        self._publish(round_index)
        version = round_index if self._lockstep else LATEST
        came = self._fetch(wanted, version, patient=self._lockstep, purpose="training")
        return self._visits_to(wanted, came)

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """See `Exchange.read_models`.

        The model after a round is the one that the next round starts with. Where an owner does not
        answer, it is the last one it gave.
        """
        next_round = round_index + 1
        self._publish(next_round)
        version = next_round if self._lockstep else LATEST
        self._predicted_with = np.unique(visits.owners)
        self._fetch(visits, version, patient=False, purpose="evaluation")
        here = []
        for owner, client in self._owners.items():
            if client.has_model:
                here.append(owner)
        return self._visits_to(visits, here)

    def push(self, round_index: int, updates: Updates) -> None:
        """See `Exchange.push`. Returns when all are acknowledged, refused, or too late."""
        deadline = self._sender.deadline()
        rows = updates.rows.as_files(self._folder)
        deliveries = {}
        for owner, coefficient, row in zip(
            updates.owners.tolist(), updates.coefficients.tolist(), rows, strict=True
        ):
            if owner == self._terms.number:
                self._keep_own_update(coefficient, row)
            else:
                delivery = self._delivery(owner, coefficient, row, round_index, deadline)
                deliveries[owner] = delivery
        self._side_by_side(deliveries, deadline)
        if self._lockstep:
            self.presence.finish(round_index)

    def collect(self, round_index: int) -> Updates:
        """See `Exchange.collect`. The own model may change from here on."""
        if self._lockstep:
            self._wait_until_finished(round_index)

        # Before there is an update of one's own, the model itself is the measure.
        model_length = float(self._bank.hosted_rows[0].norm())
        own = OwnLengths(
            last=self._own_length or model_length,
            longest=max(self._longest_own, model_length),
        )
        arrived = self._server.collect(own)
        if self._own_update is not None:
            coefficient, row = self._own_update
            arrived.append((self._terms.number, coefficient, row))
            self._own_update = None
        arrived.sort(key=lambda update: update[0])  # by contributor

        self._server.release_row()
        return self._updates.gather(self._terms.number, arrived)

    def _wait_until_finished(self, round_index: int) -> None:
        """Wait until each member that is here has pushed its updates of the round."""
        seconds = self._sender.deadline().left
        wanted = f"to finish round {round_index}"
        with ExitStack() as noted:
            for name in self._terms.roster.members:
                if name != self._terms.name and self.presence.here(name):
                    noted.enter_context(self.waits.waiting(name, wanted, seconds))
            self.presence.wait_finished(self._terms.roster.members, round_index, seconds)

    def there_twice(self) -> set[str]:
        """The members with whose key two processes answer in turn; nobody is blamed for that."""
        found = set()
        for owner, client in self._owners.items():
            if client.is_there_twice:
                found.add(self._terms.roster.members[owner])
        return found

    def clocks_ahead(self) -> dict[str, float]:
        """Seconds by which the clocks of the members that have answered are ahead of this one's."""
        ahead = {}
        for owner, client in self._owners.items():
            if client.clock_ahead is not None:
                ahead[self._terms.roster.members[owner]] = client.clock_ahead
        return ahead

    def stop_waiting(self) -> None:
        """Wait for nobody from now on: what is under way ends with what has come.

        Safe to call from a signal handler, which may have interrupted whoever holds a lock.
        """
        threading.Thread(target=self._stop_waiting, name="stop waiting", daemon=True).start()

    def close(self) -> None:
        """Send and answer no more requests. The caller, who opened the session, closes it."""
        self._closing.close()

    def _stop_waiting(self) -> None:
        self._sender.stop_waiting()
        self.presence.stop_waiting()

    def _publish(self, version: int) -> None:
        """Offer the own model as the version of the round that starts with it, once."""
        if self._published == version or self._withheld:
            return
        self._published = version
        row = self._bank.hosted_rows[0].numpy()
        if np.isfinite(square_sum(row)):
            self._server.publish(version, row)
        else:
            # Others would hold it against this peer.
            log.warning("this peer's model is not finite: it is not offered to others")

    def _fetch(self, visits: Visits, version: int, *, patient: bool, purpose: Purpose) -> list[int]:
        """Bring the models of these visits into the bank; returns the owners whose models came."""
        deadline = self._sender.deadline()
        requested = []
        for owner in np.unique(visits.owners).tolist():
            if owner != self._terms.number and self._may_request(owner, patient):
                requested.append(owner)

        kept = self._copies_of(np.union1d(visits.owners, self._predicted_with))
        rows = self._make_room(np.array([*requested, *kept], dtype=np.int64))
        fetches = {}
        for owner in requested:
            fetches[owner] = self._fetch_of(owner, version, rows[owner], deadline, patient, purpose)
        came = self._side_by_side(fetches, deadline)

        # A row that is not whole is nobody's model.
        for owner in rows:
            if not self._owners[owner].has_model:
                self._bank.drop_visiting_row(owner)
        return came

    def _copies_of(self, owners: IntArray) -> list[int]:
        """Those of these owners whose models are here.

        A peer keeps the models that it predicts with, whomever it visits: a peer told to stop gets
        no others any more.
        """
        return [
            owner
            for owner in owners.tolist()
            if owner in self._owners and self._owners[owner].has_model
        ]

    def _may_request(self, owner: int, patient: bool) -> bool:
        name = self._terms.roster.members[owner]
        if not self.reputation.trusts(name):
            return False
        if patient:
            return True
        # In lock-step nobody goes on without the others, however slow they are.
        left_alone = not self._lockstep and self.pace.left_alone(name) > 0
        return self.presence.here(name) and not left_alone

    def _make_room(self, owners: IntArray) -> dict[int, Array]:
        """Give the model of each owner a row in the bank; returns the rows of all that have one.

        The bank may move its rows for that, the own one among them.
        """
        self._bank.reserve_visiting_rows(owners)
        self._models.move_row(self._bank.hosted_rows[0].numpy())

        rows = {}
        for owner, place in self._bank.visiting_places.items():
            rows[owner] = self._bank.rows[place].numpy()
        for owner, client in self._owners.items():
            if owner not in rows:
                client.lose_copy()
        return rows

    def _fetch_of(
        self,
        owner: int,
        version: int,
        row: Array,
        deadline: Deadline,
        patient: bool,
        purpose: Purpose,
    ) -> Callable[[], bool]:
        client = self._owners[owner]

        name = self._terms.roster.members[owner]

        def fetch() -> bool:
            with self.waits.waiting(name, "its model", deadline.left):
                return client.fetch(version, row, deadline, patient=patient, purpose=purpose)

        return self._guarded(owner, fetch)

    def _delivery(
        self, owner: int, coefficient: float, row: RowFile, round_index: int, deadline: Deadline
    ) -> Callable[[], bool]:
        client = self._owners[owner]
        name = self._terms.roster.members[owner]

        def deliver() -> bool:
            if client.has_update:
                # This peer is faster than the owner, or the owner has played all its rounds.
                log.debug("%s has an update on this version of its model already", name)
                return True
            if not np.isfinite(self._updates.length(row)):
                log.warning("an update for %s is not finite: not sent", name)
                return False
            with self.waits.waiting(name, "to take an update", deadline.left):
                return client.deliver(row, coefficient, round_index, deadline)

        return self._guarded(owner, deliver)

    def _guarded(self, owner: int, action: Callable[[], bool]) -> Callable[[], bool]:
        """The action, with what goes wrong at the other end noted there."""
        name = self._terms.roster.members[owner]

        def guarded() -> bool:
            began = time.monotonic()
            done = False
            try:
                done = action()
            except ProtocolError as error:
                if self._terms.blames(signed=isinstance(error, SignedProtocolError)):
                    self.reputation.strike(name, str(error))
                else:
                    log.warning("in the name of %s, perhaps by the relay: %s", name, error)
                return False
            except RefusedError as error:
                log.info("%s refused: %s", name, error)
                return False
            finally:
                if not self._sender.stopped:
                    self.pace.note(name, time.monotonic() - began, succeeded=done)
            if not done and not self._sender.stopped:
                log.info("%s did not answer in time", name)
            return done

        return guarded

    def _keep_own_update(self, coefficient: float, row: RowFile) -> None:
        self._own_update = (coefficient, row)
        length = self._updates.length(row)
        if 0 < length < np.inf:
            self._own_length = length
            self._longest_own = max(length, self._longest_own)

    def _visits_to(self, visits: Visits, owners: Sequence[int]) -> Visits:
        """Those of the visits that go to the own model or to one of these owners."""
        possible = np.isin(visits.owners, [self._terms.number, *owners])
        return visits[np.flatnonzero(possible)]

    def _side_by_side(
        self, transfers: Mapping[int, Callable[[], bool]], deadline: Deadline
    ) -> list[int]:
        """Do all transfers at the same time; returns the owners with whom they succeeded."""
        began = time.monotonic()
        with ThreadPoolExecutor(MOST_TRANSFERS, thread_name_prefix="transfer") as pool:
            started: dict[Future[bool], int] = {}
            for owner, transfer in transfers.items():
                started[pool.submit(transfer)] = owner

            under_way = set(started)
            longest = 0.0
            while under_way:
                ended, under_way = wait(under_way, POLL_SECONDS, return_when="FIRST_COMPLETED")
                if any(future.result() for future in ended):
                    longest = time.monotonic() - began
                owners = [started[future] for future in under_way]
                if owners and self._are_mute(owners, longest, deadline):
                    deadline.end_now()
        return [owner for future, owner in started.items() if future.result()]

    def _are_mute(self, owners: Sequence[int], longest: float, deadline: Deadline) -> bool:
        """Whether all of these say nothing, while others took this long to come.

        In lock-step nobody goes on without the others. A peer that had begun to answer has a slow
        line, perhaps; so has one beside which nobody has come.
        """
        if self._lockstep:
            return False
        patience = self._terms.limits.patience
        at_first = patience
        if longest > 0:
            at_first = min(patience, max(self._terms.limits.grace, MUTE_TIMES * longest))
        for owner in owners:
            if not deadline.is_mute(self._terms.roster.members[owner], at_first, patience):
                return False
        return True
