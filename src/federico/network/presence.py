"""Who is here, and who has finished which round, by tokens that vanish with their session."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection

import zenoh

from federico.network.allowance import Allowance, log_flood
from federico.network.roster import Roster

log = logging.getLogger(__name__)

DOUBLE_AFTER = 15.0
"""Seconds after which another process with one's own key is no remainder of an earlier start."""
MOST_DOUBLES = 16
TOKENS_AT_ONCE = 1000
TOKENS_A_SECOND = 100.0
"""Tokens of a member that may appear or vanish at once, and each second, however long it goes on:
far more than short rounds in lock-step need. The engine has to remember each of them."""


LINES_AT_ONCE = 30
LINES_A_SECOND = 0.1
"""Lines of the log about one member that comes and goes: nobody can fill a log on purpose."""


class Presence:
    """Watches the other members of a federation, and shows them that this one is here."""

    def __init__(
        self,
        session: zenoh.Session,
        roster: Roster,
        me: str,
        clock: Callable[[], float] = time.monotonic,
        flooded: Callable[[str], object] = log_flood,
    ) -> None:
        """`me` is the name of this member; `clock` gives seconds, tests set it.

        `flooded` is called with the name of a member that raises far more tokens than are needed.
        """
        self._session = session
        self._roster = roster
        self._me = me
        self._clock = clock
        self._flooded = flooded
        self._allowances: dict[str, Allowance] = {}
        for name in roster.members:
            self._allowances[name] = Allowance(TOKENS_AT_ONCE, TOKENS_A_SECOND, clock)
        self._lines: dict[str, Allowance] = {}
        for name in roster.members:
            self._lines[name] = Allowance(LINES_AT_ONCE, LINES_A_SECOND, clock)

        self._changed = threading.Condition()
        self._here: set[str] = set()
        self._last_seen: dict[str, float] = {}
        self._vanished: dict[str, float] = {}
        self._finished: dict[str, int] = {}
        self._furthest: dict[str, int] = {}
        self._other_file: set[str] = set()
        self._other_protocol: set[str] = set()
        self._waits = True
        self._process = secrets.token_hex(8)
        """Drawn at each start, to tell this process from another one with its key."""
        self._doubles: dict[str, float] = {}
        """Other processes with this member's key, and since when they are there."""

        self._alive_token = session.liveliness().declare_token(roster.alive_key(me))
        process_key = roster.process_key(me, self._process)
        self._process_token = session.liveliness().declare_token(process_key)
        self._finished_token: zenoh.LivelinessToken | None = None
        everything = f"{roster.root}/**"
        self._watch = session.liveliness().declare_subscriber(
            everything, self._token_changed, history=True
        )

    def here(self, member: str) -> bool:
        """Whether this member is here now."""
        with self._changed:
            return member == self._me or member in self._here

    def away(self) -> dict[str, float | None]:
        """The members that are away, and when each was last seen (seconds since 1970, or never)."""
        with self._changed:
            away: dict[str, float | None] = {}
            for name in self._roster.members:
                if name != self._me and name not in self._here:
                    away[name] = self._last_seen.get(name)
            return away

    def gone(self, member: str, last_heard: float, grace: float) -> bool:
        """Whether a member is no longer to be waited for in the middle of a transfer.

        A process that ends takes its token along at once, a link that is cut only after a while of
        silence. So whoever had fallen silent before its token vanished gets that much longer.
        """
        with self._changed:
            if member == self._me or member in self._here:
                return False
            vanished = self._vanished.get(member, 0.0)
        silence = max(0.0, vanished - last_heard)
        return self._clock() - vanished > grace + silence

    @property
    def has_double(self) -> bool:
        """Whether another process runs with the key of this member.

        One that has just ended may be in the way of its successor for a moment.
        """
        with self._changed:
            oldest = min(self._doubles.values(), default=self._clock())
        return self._clock() - oldest > DOUBLE_AFTER

    def with_another_file(self) -> set[str]:
        """The members that are here with another federation file; they count as away."""
        with self._changed:
            return set(self._other_file)

    def with_another_protocol(self) -> set[str]:
        """The members that are here with another version of federico; they count as away."""
        with self._changed:
            return set(self._other_protocol)

    def furthest_round(self, member: str) -> int:
        """The last round this member was ever seen to finish, whether it is here or away."""
        with self._changed:
            return self._furthest.get(member, 0)

    def finish(self, round_index: int) -> None:
        """Tell everybody that this member has pushed all its updates of a round."""
        key = self._roster.finished_key(self._me, round_index)
        token = self._session.liveliness().declare_token(key)
        before = self._finished_token
        self._finished_token = token
        if before is not None:
            before.undeclare()

    def wait(self, members: Collection[str], seconds: float) -> bool:
        """Wait until all of these are here, or the time is over; returns whether they are."""

        def all_here() -> bool:
            return all(name == self._me or name in self._here for name in members)

        return self._wait_for(all_here, seconds)

    def wait_finished(self, members: Collection[str], round_index: int, seconds: float) -> bool:
        """Wait until each of these has finished the round or is away; returns whether it is so."""

        def all_finished() -> bool:
            waited_for = self._here.intersection(members)
            return all(self._finished.get(name, 0) >= round_index for name in waited_for)

        return self._wait_for(all_finished, seconds)

    def stop_waiting(self) -> None:
        """End all waiting, now and later."""
        with self._changed:
            self._waits = False
            self._changed.notify_all()

    def close(self) -> None:
        """Leave, for all to see."""
        self._watch.undeclare()
        self._alive_token.undeclare()
        self._process_token.undeclare()
        if self._finished_token is not None:
            self._finished_token.undeclare()

    def _wait_for(self, reached: Callable[[], bool], seconds: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: not self._waits or reached(), seconds)
            return reached()

    def _token_changed(self, sample: zenoh.Sample) -> None:
        """A token appeared or vanished. What is no member's, or is no known token, is ignored."""
        key = str(sample.key_expr).removeprefix(f"{self._roster.root}/")
        member, what, detail, protocol = [*key.split("/"), "", "", ""][:4]
        appeared = sample.kind == zenoh.SampleKind.PUT
        if member == self._me and what == "process" and detail != self._process:
            self._note_double(detail, appeared)
        if member not in self._roster.members or member == self._me:
            return
        if not self._allowances[member].take():
            self._flooded(member)
            return

        with self._changed:
            if what == "alive" and protocol != str(self._roster.protocol):
                self._note_other_protocol(member, protocol, appeared)
            elif what == "alive" and detail == self._roster.version:
                self._note_presence(member, appeared)
            elif what == "alive":
                self._note_other_file(member, appeared)
            elif what == "finished" and appeared and detail.isdecimal():
                self._note_finished(member, int(detail[:9]))
            self._changed.notify_all()

    def _note_double(self, process: str, appeared: bool) -> None:
        with self._changed:
            if not appeared:
                self._doubles.pop(process, None)
            elif len(self._doubles) < MOST_DOUBLES:
                self._doubles.setdefault(process, self._clock())

    def _note_presence(self, member: str, appeared: bool) -> None:
        self._last_seen[member] = time.time()
        if appeared:
            self._here.add(member)
            self._log(logging.INFO, member, "%s is here", member)
            return
        self._here.discard(member)
        self._vanished[member] = self._clock()
        self._finished.pop(member, None)  # it may start again from an earlier round
        self._log(logging.INFO, member, "%s is away", member)

    def _note_other_file(self, member: str, appeared: bool) -> None:
        if not appeared:
            self._other_file.discard(member)
            return
        self._other_file.add(member)
        text = "%s has another version of the federation file, or of federico, than this site"
        self._log(logging.WARNING, member, text, member)

    def _note_other_protocol(self, member: str, protocol: str, appeared: bool) -> None:
        if not appeared:
            self._other_protocol.discard(member)
            return
        self._other_protocol.add(member)
        text = "%s speaks protocol %.9s, this site %d: upgrade the federico of the older of the two"
        self._log(logging.WARNING, member, text, member, protocol, self._roster.protocol)

    def _log(self, level: int, member: str, text: str, *filled: object) -> None:
        """Say something about a member, unless too much was said about it lately."""
        if self._lines[member].take():
            log.log(level, text, *filled)

    def _note_finished(self, member: str, round_index: int) -> None:
        self._finished[member] = max(round_index, self._finished.get(member, 0))
        self._furthest[member] = max(round_index, self._furthest.get(member, 0))


def members_seen(session: zenoh.Session, roster: Roster, seconds: float) -> dict[str, str]:
    """Who is here, and with which version of the federation file; looks without joining."""
    seen = {}
    for reply in session.liveliness().get(f"{roster.root}/*/alive/*/*", timeout=seconds):
        if reply.ok is None:
            continue
        *_, member, _, version, protocol = str(reply.ok.key_expr).split("/")
        if member in roster.members:
            seen[member] = version if protocol == str(roster.protocol) else f"protocol {protocol}"
    return seen
