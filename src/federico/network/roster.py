"""Who is in the federation, and under which key everything of a member is found."""

import re
from dataclasses import dataclass

from federico.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a federation and a member may be called: it is a part of a key, of a certificate and of a file's name."""


@dataclass(frozen=True)
class Roster:
    """The members of a federation in the order of its file: a member's place is its number as a client."""

    federation: str
    digest: bytes
    """SHA-256 of the file that all members agreed on."""
    members: tuple[str, ...]
    relays: tuple[str, ...] = ()
    """Names of certificates that may pass on the messages of others."""

    def __post_init__(self) -> None:
        names = (self.federation, *self.members, *self.relays)
        if bad := [name for name in names if not NAME.fullmatch(name)]:
            raise ConfigError(
                f"name {bad[0]!r}: use up to 64 letters, digits, dots, dashes and underscores"
            )
        if len(set(names[1:])) < len(names) - 1:
            raise ConfigError("members: every member and relay needs a name of its own")

    @property
    def root(self) -> str:
        """The key above all others of this federation."""
        return f"federico/{self.federation}"

    def home(self, member: str) -> str:
        """The key above all that is this member's."""
        return f"{self.root}/{member}"

    def desk(self, owner: str) -> str:
        """Where `owner` answers: what `visitor` asks is below, under its name."""
        return f"{self.home(owner)}/desk"

    def question(self, owner: str, visitor: str, what: str) -> str:
        """Where `visitor` asks `owner` something of that kind."""
        return f"{self.desk(owner)}/{visitor}/{what}"

    def alive(self, member: str) -> str:
        """Exists as long as the member is there; says which version of the federation file it has."""
        return f"{self.home(member)}/alive/{self.version}"

    @property
    def version(self) -> str:
        """What people compare of the digest."""
        return self.digest.hex()[:16]

    def finished(self, member: str, round_index: int | str) -> str:
        """Exists once the member has pushed all it has to push in that round."""
        return f"{self.home(member)}/finished/{round_index}"
