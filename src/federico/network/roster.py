"""The members of a federation, and the keys under which everything of a member is found."""

import re
from dataclasses import dataclass

from federico.errors import ConfigError
from federico.network.wire.messages import FORMAT

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a federation and a member may be called: it is part of keys, certificates, file names."""


@dataclass(frozen=True)
class Roster:
    """The members of a federation, in the order that gives each its number as a client."""

    federation: str
    """Name of the federation."""
    digest: bytes
    """SHA-256 of the federation file that all members agreed on."""
    members: tuple[str, ...]
    """Names of the members."""
    relays: tuple[str, ...] = ()
    """Names in the certificates of relays, which may pass on the messages of others."""

    protocol: int = FORMAT
    """Number of the protocol that this program speaks."""

    def __post_init__(self) -> None:
        """Refuse names that cannot be part of a key, and names that occur twice."""
        for name in (self.federation, *self.members, *self.relays):
            if not NAME.fullmatch(name):
                raise ConfigError(
                    f"name {name!r}: use up to 64 letters, digits, dots, dashes and underscores"
                )
        names = [*self.members, *self.relays]
        if len(set(names)) < len(names):
            raise ConfigError("members: every member and relay needs a name of its own")

    @property
    def version(self) -> str:
        """The first letters of the digest, which people can compare."""
        return self.digest.hex()[:16]

    @property
    def root(self) -> str:
        """The key above all others of this federation."""
        return f"federico/{self.federation}"

    def member_key(self, member: str) -> str:
        """The key above all that belongs to a member."""
        return f"{self.root}/{member}"

    def requests_key(self, owner: str) -> str:
        """The key above all requests to an owner."""
        return f"{self.member_key(owner)}/requests"

    def request_key(self, owner: str, visitor: str, topic: str) -> str:
        """The key of a visitor's requests to an owner about one topic."""
        return f"{self.requests_key(owner)}/{visitor}/{topic}"

    def visitor_of(self, key: str, owner: str) -> str | None:
        """Whose request to this owner has this key; None if it is no such key.

        Zenoh also delivers requests whose key holds wildcards. Nobody honest sends one, and whose
        it is cannot be told by it.
        """
        prefix = f"{self.requests_key(owner)}/"
        if not key.startswith(prefix) or "*" in key:
            return None

        rest = key.removeprefix(prefix)
        visitor, slash, topic = rest.partition("/")
        if not slash or "/" in topic:
            return None
        return visitor

    def alive_key(self, member: str) -> str:
        """The token that is there as long as the member is.

        It is the handshake between versions: it says which federation file and which protocol the
        member has, before anybody asks for anything.
        """
        return f"{self.member_key(member)}/alive/{self.version}/{self.protocol}"

    def finished_key(self, member: str, round_index: int | str) -> str:
        """The token that is there once the member has pushed all its updates of a round."""
        return f"{self.member_key(member)}/finished/{round_index}"

    def process_key(self, member: str, process: str) -> str:
        """The token of one process of a member: two of them at a time are one too many."""
        return f"{self.member_key(member)}/process/{process}"
