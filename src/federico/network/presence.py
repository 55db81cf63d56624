"""Who is here, by the liveliness tokens that vanish with their session; and who has finished which round."""

import logging
import threading
import time
from collections.abc import Callable, Collection

import zenoh

from federico.network.roster import Roster

log = logging.getLogger(__name__)


class Presence:
    """Watches the other members of a federation from inside a session, and shows them that this one is here."""

    def __init__(self, session: zenoh.Session, roster: Roster, me: str) -> None:
        self._roster, self._me = roster, me
        self._session = session
        self._changed = threading.Condition()
        self._here: set[str] = set()
        self._since: dict[str, float] = {}
        self._vanished: dict[str, float] = {}
        """When who is away went, by the monotonic clock."""
        self._finished: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        self._estranged: set[str] = set()
        self._hurried = False
        self._token = session.liveliness().declare_token(roster.alive(me))
        self._mark: zenoh.LivelinessToken | None = None
        self._watch = session.liveliness().declare_subscriber(
            f"{roster.root}/**", self._notice, history=True
        )

    def here(self, member: str) -> bool:
        """Whether this member is there now."""
        with self._changed:
            return member == self._me or member in self._here

    def away(self) -> dict[str, float | None]:
        """The members that are not there, and when each was last seen (seconds since 1970; None: never)."""
        with self._changed:
            gone = [
                name for name in self._roster.members if name not in self._here and name != self._me
            ]
            return {name: self._since.get(name) for name in gone}

    def gone(self, member: str, heard: float, grace: float) -> bool:
        """Whether one that was last heard of at `heard` (by the monotonic clock) is not to be waited for.

        A process that ends takes its token along at once, a line that is cut only after a while of silence.
        """
        if self.here(member):
            return False
        now, vanished = time.monotonic(), self._vanished.get(member, 0.0)
        return now - vanished > grace + max(0.0, vanished - heard)

    def estranged(self) -> set[str]:
        """The members that are there with another version of the federation file: not here, as far as this one goes."""
        with self._changed:
            return set(self._estranged)

    def reached(self, member: str) -> int:
        """The last round this member was ever seen to finish, whether it is here or away."""
        with self._changed:
            return self._reached.get(member, 0)

    def finish(self, round_index: int) -> None:
        """Tell everybody that this member has pushed all of that round."""
        mark = self._session.liveliness().declare_token(
            self._roster.finished(self._me, round_index)
        )
        self._mark, before = mark, self._mark
        if before is not None:
            before.undeclare()

    def wait(self, members: Collection[str], seconds: float) -> bool:
        """Until all of these are here, or the time is over; returns whether they are."""
        return self._wait(lambda: self._here.union([self._me]).issuperset(members), seconds)

    def wait_finished(self, members: Collection[str], round_index: int, seconds: float) -> bool:
        """Until all of these have finished that round or are away, or the time is over; returns whether they are."""

        def reached() -> bool:
            return all(
                self._finished.get(name, 0) >= round_index
                for name in self._here.intersection(members)
            )

        return self._wait(reached, seconds)

    def hurry(self) -> None:
        """End all waiting, now and later."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def close(self) -> None:
        """Leave, for all to see."""
        self._watch.undeclare()
        self._token.undeclare()
        if self._mark is not None:
            self._mark.undeclare()

    def _wait(self, reached: Callable[[], bool], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._hurried or reached(), seconds) and reached()

    def _notice(self, sample: zenoh.Sample) -> None:
        """A token came or went. Names that are no member's are nobody's."""
        member, what, rest, *_ = (
            f"{str(sample.key_expr).removeprefix(f'{self._roster.root}/')}//".split("/")
        )
        if member not in self._roster.members or member == self._me:
            return
        came = sample.kind == zenoh.SampleKind.PUT
        with self._changed:
            if what == "alive" and rest == self._roster.version:
                self._note_presence(member, came=came)
            elif what == "alive":
                self._note_estranged(member, came=came)
            elif what == "finished" and came and rest.isdecimal():
                self._finished[member] = max(int(rest[:9]), self._finished.get(member, 0))
                self._reached[member] = max(self._finished[member], self._reached.get(member, 0))
            self._changed.notify_all()

    def _note_presence(self, member: str, *, came: bool) -> None:
        (self._here.add if came else self._here.discard)(member)
        self._since[member] = time.time()
        if not came:
            self._vanished[member] = time.monotonic()
            self._finished.pop(member, None)  # it may start again from an earlier round
        log.info("%s is %s", member, "here" if came else "away")

    def _note_estranged(self, member: str, *, came: bool) -> None:
        (self._estranged.add if came else self._estranged.discard)(member)
        if came:
            log.warning(
                "%s has another version of the federation file, or of federico, than this site",
                member,
            )


def members_seen(session: zenoh.Session, roster: Roster, seconds: float) -> dict[str, str]:
    """Who is there now, and with which version of the federation file; asks without joining."""
    replies = session.liveliness().get(f"{roster.root}/*/alive/*", timeout=seconds)
    keys = [str(reply.ok.key_expr).split("/") for reply in replies if reply.ok]
    return {key[-3]: key[-1] for key in keys if key[-3] in roster.members}
