"""The site file: what one site says about itself, and shows to nobody. It is read without torch."""

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
from federico.experiment.split_options import Split
from federico.network.identity import Addresses, Identity
from federico.options import Options
from federico.site.federation_file import FederationOptions, PeerName, load_federation

LAST_PORT = 65535


def _check_port(address: str) -> str:
    port = int(address.rpartition(":")[2])
    if port > LAST_PORT:
        raise ValueError(f"ports end at {LAST_PORT}")
    return address


HostPort = Annotated[
    str,
    StringConstraints(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$"),
    AfterValidator(_check_port),
]


class SiteOptions(Options):
    """A whole site file."""

    name: PeerName
    """The peer's name: the one in its certificate and in the federation's members."""
    federation: Path = Path("federation.toml")
    """The federation file; paths are relative to the folder of the site file."""
    state: Path = Path("state")
    """Folder for checkpoints, records, status and the personal model."""
    keys: Path = Path("keys")
    """Folder of <name>.pem, <name>.key and ca.pem, as `federico pki` names them."""
    listen: tuple[HostPort, ...] = ()
    """Addresses to listen on, such as 0.0.0.0:7447; none for a site that can only dial out."""
    connect: tuple[HostPort, ...] = ()
    """Addresses of one or two other members, or of the relay; the rest are found through them."""
    wait_for_members: PositiveFloat = 30.0
    """Seconds to wait for the other members before the first round; it then starts with those that
    are there."""
    keep_serving: float = Field(default=60.0, ge=0)
    """Seconds to keep serving others after the last round, if they have not finished."""
    stop_within: PositiveFloat = 60.0
    """Seconds that a peer which is told to stop may take to end its round; after that it gives the
    round up and leaves."""
    metrics: HostPort | None = None
    """Address at which figures are served for Prometheus, such as 127.0.0.1:9464; nowhere if not
    set. There is no password: use a loopback address, or a firewall."""
    data: Source
    """The site's own samples; files are looked for beside the site file, then in the data
    folder."""
    partition: Partitioning | None = None
    """For trying it out: divide the data as an experiment would, and take one client's; if not set,
    all of the data is the site's."""
    client: str | None = None
    """The client of the partition whose data are this site's; the one with its name if not set."""
    split: Split = Split()
    """How the data is divided for training and testing."""
    threads: PositiveInt | None = None
    """Threads to compute with; as many as there are cores if not set."""
    memory: ByteSize | None = None
    """How much memory the peer may take, such as "8GiB"; what is free if not set. Models and
    optimizers that do not fit are kept on the disk of the state folder."""
    evaluate_every: PositiveInt = 1
    """Rounds between evaluations on the site's own test data; the last is always evaluated."""
    checkpoint_every: PositiveInt = 1
    """Rounds between checkpoints."""

    @model_validator(mode="after")
    def _check_reachable(self) -> Self:
        if not (self.listen or self.connect):
            raise ValueError("listen and connect are both empty: nobody could ever meet this peer")
        return self


@dataclass(frozen=True)
class Site:
    """A site file and the federation file that it names, with paths that can be opened."""

    options: SiteOptions
    federation: FederationOptions
    folder: Path
    """The folder of the site file."""

    @property
    def name(self) -> str:
        """The name of the site's peer."""
        return self.options.name

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / self.options.state

    @property
    def identity(self) -> Identity:
        """The site's key and certificate, and the certificate of the authority."""
        keys = self.folder / self.options.keys
        return Identity(
            name=self.name,
            certificate=keys / f"{self.name}.pem",
            key=keys / f"{self.name}.key",
            authority=keys / "ca.pem",
        )

    @property
    def addresses(self) -> Addresses:
        """Where the peer listens, and whom it dials.

        It does not dial itself, so all sites may be given the same list of addresses.
        """
        listen = self.options.listen
        connect = [address for address in self.options.connect if address not in listen]
        return Addresses(listen, connect)

    @property
    def member_index(self) -> int:
        """The number of this site among the members, which is also its number as a client."""
        return self.federation.members.index(self.name)


def load_site(path: Path) -> Site:
    """Read a site file and its federation file; a site that is no member is refused."""
    options = validated(SiteOptions, read_tables(path, "site file"), str(path))
    federation = load_federation(path.parent / options.federation)
    if options.name not in federation.members:
        members = ", ".join(federation.members)
        raise IdentityError(
            f"{path}: name = {options.name!r} is not in the members of the federation: {members}"
        )
    return Site(options, federation, path.parent)
