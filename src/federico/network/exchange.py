"""One peer on a real network: asks others for their models, answers for its own, and never waits for everybody.

Rules: a pull gives the model its owner had at the start of a round, whole and signed, or nothing; a model that has
not changed is not sent again; an update is acknowledged or lost, never half applied; one who breaks the rules is
struck, paused, put in quarantine. In lock-step a peer plays round r with everybody's models of round r, and collects
once all have pushed: the same numbers as in one process. A peer's own row, served as it stands, changes only between
`collect` and what comes next.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import zenoh

from federico.errors import ProtocolError
from federico.exchange.protocol import Purpose, Traffic, Updates
from federico.learning.bank import Bank
from federico.learning.rows import RowFile, Rows
from federico.learning.visits import Visits
from federico.network.client import PeerClient
from federico.network.limits import Limits
from federico.network.local_peer import LocalPeer, schema_of
from federico.network.presence import Presence
from federico.network.reputation import Reputation
from federico.network.requests import Deadline, Line
from federico.network.roster import Roster
from federico.network.server import PeerServer
from federico.network.wire.encoding import square_sum
from federico.network.wire.header import MessageHeader
from federico.network.wire.messages import LATEST, RefusedError
from federico.network.wire.signing import SignedMessage, Signer
from federico.types import Array

log = logging.getLogger(__name__)
AT_ONCE = 16
"""Transfers with different peers go on side by side: a slow one holds up nobody."""

EDITIONS = 3
"""How often a model may change under the eyes of its reader before it is left for this round."""


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
        seal: Signer,
        limits: Limits,
        lockstep: bool = False,
        folder: Path | None = None,
    ) -> None:
        """`bank` holds the model of `me` alone; in `folder` updates wait until they are collected."""
        self.traffic = Traffic(participants)
        self.reputation = Reputation(limits)
        self.presence = Presence(session, roster, me)
        schema = schema_of(bank.layout, limits.precision)
        self._peer = LocalPeer(me, roster, schema, limits, seal, self.reputation, self.traffic)
        self._bank, self._lockstep, self._folder = bank, lockstep, folder
        self._line = Line(session, limits)
        self._visitor = PeerClient(self._line, self._peer, self.presence)
        self._owner = PeerServer(session, self._peer, folder)
        self._leaving = ExitStack()
        for leave in (self.presence.close, self._owner.close, self._line.hurry):
            self._leaving.callback(leave)
        self._published = 0
        self._held: dict[int, MessageHeader] = {}
        """What is known of the guests in the bank: only of those whose rows are whole."""
        self._given: dict[int, tuple[int, int]] = {}
        """Which version of its model each owner has got an update on; it takes no second one."""
        self._own: tuple[float, RowFile] | None = None
        self._reach = 0.0
        """Length of the last own update, the measure for those of others; the own model's before there is one."""

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """See `Exchange.pull`. Offers the own model as it is now to others, under the number of this round."""
        self._publish(round_index)
        version = round_index if self._lockstep else LATEST
        came = self._fetch(
            self._others(wanted), version, patient=self._lockstep, purpose="training"
        )
        return wanted[np.flatnonzero(np.isin(wanted.owners, [self._peer.number, *came]))]

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """See `Exchange.read_models`.

        The model after a round is the one that the next round starts with. Where an owner does not
        answer, it is the last one it gave.
        """
        self._publish(round_index + 1)
        version = round_index + 1 if self._lockstep else LATEST
        self._fetch(self._others(visits), version, patient=False, purpose="evaluation")
        return visits[np.flatnonzero(np.isin(visits.owners, [self._peer.number, *self._held]))]

    def push(self, round_index: int, updates: Updates) -> None:
        """See `Exchange.push`. Returns when all are acknowledged, refused, or the deadline has passed."""
        deadline, own = self._line.deadline(), self._peer.number
        sent = []
        rows = updates.rows.as_files(self._folder)
        for owner, coefficient, row in zip(
            updates.owners.tolist(), updates.coefficients, rows, strict=True
        ):
            if owner == own:
                self._keep_own(float(coefficient), row)
            else:
                sent.append(self._delivery(owner, float(coefficient), row, round_index, deadline))
        _side_by_side(sent)
        if self._lockstep:
            self.presence.finish(round_index)

    def collect(self, round_index: int) -> Updates:
        """See `Exchange.collect`. The own model may change from here on."""
        if self._lockstep:
            self.presence.wait_finished(
                self._peer.roster.members, round_index, self._line.deadline().left
            )
        arrived = [
            (parcel.sealed.header.contributor, parcel.sealed.header.coefficient, parcel.row_file)
            for parcel in self._owner.inbox.take(
                self._reach or float(self._bank.hosted_rows[0].norm())
            )
        ]
        if self._own is not None:
            arrived.append((self._peer.number, *self._own))
        self._owner.shelf.settle()
        self._own = None
        arrived.sort(key=lambda update: update[0])
        return self._assemble(arrived)

    def hurry(self) -> None:
        """Wait for nobody from now on: what is under way ends with what has come. Safe to call from a signal."""
        threading.Thread(target=self._hurry, name="hurry", daemon=True).start()

    def close(self) -> None:
        """Stop asking and answering. The session stays open: it is whoever opened it that closes it."""
        self._leaving.close()

    def _hurry(self) -> None:
        self._line.hurry()
        self.presence.hurry()

    def _publish(self, version: int) -> None:
        """Offer the own model under the number of the round that starts with it, once. What is not finite would be held against this peer."""
        if self._published == version:
            return
        row = self._bank.hosted_rows[0].numpy()
        if np.isfinite(square_sum(row)):
            self._owner.publish(version, row)
        else:
            log.warning("this peer's model is not finite: it is not offered to others")
        self._published = version

    def _others(self, visits: Visits) -> list[int]:
        return [owner for owner in np.unique(visits.owners).tolist() if owner != self._peer.number]

    def _fetch(
        self, owners: list[int], version: int, *, patient: bool, purpose: Purpose
    ) -> list[int]:
        """Bring the models of these owners into the bank; returns those that came, or are as they were."""
        names, deadline = self._peer.roster.members, self._line.deadline()
        asked = [owner for owner in owners if patient or self.presence.here(names[owner])]
        asked = [owner for owner in asked if self.reputation.trusts(names[owner])]
        self._bank.reserve_visiting_rows(
            np.array([*asked, *(owner for owner in owners if owner in self._held)], dtype=np.int64)
        )
        self._owner.shelf.move(self._bank.hosted_rows[0].numpy())
        guests = {
            owner: self._bank.rows[place].numpy()
            for owner, place in self._bank.visiting_places.items()
        }
        self._held = {owner: header for owner, header in self._held.items() if owner in guests}
        came = _side_by_side(
            [
                self._fetching(owner, guests[owner], version, deadline, patient, purpose)
                for owner in asked
            ]
        )
        for owner in guests.keys() - self._held.keys():
            self._bank.drop_visiting_row(owner)
        return [owner for owner, whole in zip(asked, came, strict=True) if whole]

    def _fetching(
        self,
        owner: int,
        row: Array,
        version: int,
        deadline: Deadline,
        patient: bool,
        purpose: Purpose,
    ) -> Callable[[], bool]:
        def fetch() -> bool:
            for _ in range(EDITIONS):
                announced = self._visitor.ask(owner, version, deadline, patient=patient)
                if announced is None:
                    return False
                try:
                    return self._bring(owner, announced, row, deadline, purpose)
                except RefusedError as error:  # a newer one has taken its place meanwhile
                    log.info("%s: %s", self._peer.roster.members[owner], error)
            return False

        return self._guarded(owner, fetch)

    def _bring(
        self, owner: int, announced: SignedMessage, row: Array, deadline: Deadline, purpose: Purpose
    ) -> bool:
        """What is in the row already is not sent again."""
        known = self._held.pop(owner, None)
        there = known is not None and known.digest == announced.header.digest
        if not there and not self._visitor.fetch(owner, announced, row, deadline, purpose):
            return False
        self._held[owner] = announced.header
        return True

    def _length(self, row: RowFile) -> float:
        """Not finite where any number is not."""
        return float(np.sqrt(sum(square_sum(row[part]) for part in self._peer.chunk_plan.parts)))

    def _delivery(
        self, owner: int, coefficient: float, row: RowFile, round_index: int, deadline: Deadline
    ) -> Callable[[], bool]:
        def deliver() -> bool:
            base = self._held[owner]
            version = base.epoch, base.version
            if (
                self._given.get(owner) == version
            ):  # this peer is faster than the owner, or the owner plays no more
                log.debug(
                    "%s has an update on this version of its model already",
                    self._peer.roster.members[owner],
                )
                return True
            if not np.isfinite(self._length(row)):
                log.warning(
                    "an update for %s is not finite: not sent", self._peer.roster.members[owner]
                )
                return False
            delivered = self._visitor.deliver(base, row, coefficient, round_index, deadline)
            if delivered:
                self._given[owner] = version
            return delivered

        return self._guarded(owner, deliver)

    def _guarded(self, owner: int, action: Callable[[], bool]) -> Callable[[], bool]:
        """The action, with what goes wrong on the other side noted there."""
        name = self._peer.roster.members[owner]

        def guarded() -> bool:
            try:
                done = action()
            except ProtocolError as error:
                self.reputation.strike(name, str(error))
                return False
            except RefusedError as error:
                log.info("%s refused: %s", name, error)
                return False
            if not done and not self._line.hurried:
                log.info("%s did not answer in time", name)
            return done

        return guarded

    def _keep_own(self, coefficient: float, row: RowFile) -> None:
        length = self._length(row)
        self._reach = length if 0 < length < np.inf else self._reach
        self._own = coefficient, row

    def _assemble(self, arrived: list[tuple[int, float, RowFile]]) -> Updates:
        contributors = np.array([update[0] for update in arrived], dtype=np.int64)
        coefficients = np.array([update[1] for update in arrived], dtype=np.float64)
        layout = self._bank.layout
        rows = Rows.of_files([update[2] for update in arrived], layout.size, layout.dtype)
        return Updates(
            np.full_like(contributors, self._peer.number), contributors, coefficients, rows
        )


def _side_by_side(actions: Iterable[Callable[[], bool]]) -> list[bool]:
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="transfer") as pool:
        return [action.result() for action in [pool.submit(action) for action in actions]]
