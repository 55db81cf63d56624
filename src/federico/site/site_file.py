"""The site file: what one site says of itself, and shows nobody."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    ByteSize,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from federico.config_file import read_tables, validated
from federico.data.partition import Partitioning
from federico.data.sources import Source
from federico.errors import IdentityError
from federico.experiment.config import Experiment, Split, System
from federico.network.session import Addresses, Identity
from federico.options import Options
from federico.site.federation_file import Agreement, PeerName, load_agreement

LAST_PORT = 65535


def _port_exists(address: str) -> str:
    if int(address.rpartition(":")[2]) > LAST_PORT:
        raise ValueError(f"ports end at {LAST_PORT}")
    return address


HostPort = Annotated[
    str,
    StringConstraints(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$"),
    AfterValidator(_port_exists),
]


class SiteOptions(Options):
    """A whole site file."""

    name: PeerName
    """The peer's name: the one in its certificate and in the federation's members."""
    federation: Path = Path("federation.toml")
    """The federation file; paths start at the folder of the site file."""
    state: Path = Path("state")
    """Folder for checkpoints, records, status and the personal model."""
    keys: Path = Path("keys")
    """Folder of <name>.pem, <name>.key and ca.pem, as `federico pki` names them."""
    listen: tuple[HostPort, ...] = ()
    """Addresses to listen on, such as 0.0.0.0:7447; none for a site that only dials out."""
    connect: tuple[HostPort, ...] = ()
    """Addresses of one or two other members, or of the relay; the rest are found through them."""
    linger: float = Field(default=60.0, ge=0)
    """Seconds to go on serving others after the last round, if they have not finished."""
    gather: PositiveFloat = 30.0
    """Seconds to wait for the other members before the first round; then it starts with those who are there."""
    data: Source
    """The site's own samples."""
    partition: Partitioning | None = None
    """For trying it out: cut the data as an experiment would, and take one part; all of it is the site's if not set."""
    part: str | None = None
    """Which part of the partition is this site's; the one of its own name if not set."""
    split: Split = Split()
    """What is kept for testing."""
    threads: PositiveInt | None = None
    """Threads for computing; as many as there are cores if not set."""
    memory: ByteSize | None = None
    """How much memory the peer may take, such as "8GiB"; what is free if not set. Where models and optimizers do not
    fit, they lie on the disk of the state folder."""
    evaluate_every: PositiveInt = 1
    """Rounds between evaluations on the site's own test data; the last round is always evaluated."""
    checkpoint_every: PositiveInt = 1
    """Rounds between checkpoints."""

    @model_validator(mode="after")
    def _can_be_reached_or_reach(self) -> Self:
        if not (self.listen or self.connect):
            raise ValueError("listen and connect are both empty: nobody could ever meet this peer")
        return self


@dataclass(frozen=True)
class Site:
    """A site file and the federation file it names, with every path where it really is."""

    options: SiteOptions
    agreement: Agreement
    folder: Path

    @property
    def name(self) -> str:
        """The peer's name."""
        return self.options.name

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / self.options.state

    @property
    def identity(self) -> Identity:
        """The site's papers."""
        keys = self.folder / self.options.keys
        return Identity(
            self.name, keys / f"{self.name}.pem", keys / f"{self.name}.key", keys / "ca.pem"
        )

    @property
    def addresses(self) -> Addresses:
        """Where it listens, and whom it dials: not itself, so that all sites may be given one list."""
        dialled = [
            address for address in self.options.connect if address not in self.options.listen
        ]
        return Addresses(self.options.listen, dialled)

    @property
    def place(self) -> int:
        """Its number among the members."""
        return self.agreement.members.index(self.name)

    @property
    def experiment(self) -> Experiment:
        """What a simulation of this one peer would be given."""
        agreed, mine = self.agreement, self.options
        return Experiment(
            name=agreed.name,
            methods=("federico",),
            seeds=(agreed.seed,),
            rounds=agreed.rounds,
            data=mine.data,
            split=mine.split,
            model=agreed.model,
            training=agreed.training,
            federico=agreed.federico,
            system=System(
                dtype=agreed.dtype,
                threads=mine.threads,
                memory=mine.memory,
                evaluate_every=mine.evaluate_every,
                checkpoint_every=mine.checkpoint_every,
            ),
        )


def load_site(path: Path) -> Site:
    """Read a site file and its federation file; a site that is no member is refused."""
    options = validated(SiteOptions, read_tables(path, "site file"), str(path))
    agreement = load_agreement(path.parent / options.federation)
    if options.name not in agreement.members:
        members = ", ".join(agreement.members)
        raise IdentityError(
            f"{path}: name = {options.name!r} is not in the members of the federation: {members}"
        )
    return Site(options, agreement, path.parent)
