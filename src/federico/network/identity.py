"""Who a member is to the others, and where it is found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A site's certificate and key, and the authority of its federation; all of them PEM files."""

    name: str
    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Addresses:
    """Where to listen and whom to dial, as `host:port`. A site may listen nowhere."""

    listen: Sequence[str] = ()
    connect: Sequence[str] = ()
