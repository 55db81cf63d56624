"""A whole federation on one machine, to try it out: real processes, sockets and certificates."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from pydantic import ByteSize

from federico.config_file import validated
from federico.errors import ConfigError, NetworkError, RunError
from federico.experiment.build import Setup
from federico.experiment.config import Experiment
from federico.experiment.runner import play_round
from federico.options import Options
from federico.runs.atomic import publish_text
from federico.runs.metric import metric_in
from federico.site.certificates import approve_request, create_authority, create_request
from federico.site.federation_file import FederationOptions, SampleOptions
from federico.site.site_file import SiteOptions
from federico.site.status import Status, read_status

HOST = "127.0.0.1"
DIALLED = 2
"""How many peers the others are told to dial; they hear of the rest from these."""
WAIT_FOR_MEMBERS = 60.0
"""Seconds that peers wait for each other: many processes on one machine take long to start."""


@dataclass(frozen=True)
class LaunchedPeer:
    """The process of a peer, and the folder of its site."""

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def status(self) -> Status | None:
        """The last status that the peer wrote, if it has written one."""
        try:
            return read_status(self.folder / "state")
        except RunError:
            return None

    @property
    def failure(self) -> str:
        """The exit code and the last line of output of a peer that failed; else empty."""
        code = self.process.poll()
        if not code:
            return ""
        file = self.folder / "output.txt"
        output = file.read_text(encoding="utf-8", errors="replace").strip()
        last_line = "without a word"
        if output:
            last_line = output.splitlines()[-1]
        return f"{self.name} ended with code {code}: {last_line}"


def with_clients(experiment: Experiment, peers: int) -> Experiment:
    """The experiment with this many clients, where its partition can have any number of them."""
    partition: Options = experiment.partition
    if "clients" in type(partition).model_fields:
        changed = {**partition.model_dump(), "clients": peers}
        partition = validated(type(partition), changed, f"{peers} peers: partition")
    return experiment.model_copy(update={"partition": partition, "methods": ("federico",)})


def check_peer_count(setup: Setup, peers: int) -> None:
    """Refuse another number of peers than a natural partition has clients."""
    clients = len(setup.shares.ids)
    if clients != peers:
        raise ConfigError(
            f"{peers} peers: this experiment's data has {clients} clients; ask for {clients} peers"
        )


def create_federation(folder: Path, setup: Setup, **changes: object) -> dict[str, Path]:
    """Write an authority, a federation file, and a site with its keys per client.

    `changes` are made to what the federation file would say. Returns the site files by name.
    """
    create_authority(folder / "ca", f"{setup.experiment.name}-authority")
    write_federation_file(folder / "federation.toml", federation_options(setup, **changes))

    names = setup.shares.ids
    addresses = free_addresses(len(names))
    dialled = addresses[:DIALLED]
    site_files = {}
    for name, address in zip(names, addresses, strict=True):
        site_files[name] = _create_site(folder, setup, name, address, dialled)
    return site_files


def federation_options(setup: Setup, **changes: object) -> FederationOptions:
    """The federation file of an experiment, with these changes."""
    experiment = setup.experiment
    options = {
        "name": experiment.name,
        "members": setup.shares.ids,
        "rounds": experiment.rounds,
        "seed": setup.seed,
        "dtype": experiment.system.dtype,
        "sample": SampleOptions.from_schema(setup.schema),
        "model": experiment.located_model,
        "training": experiment.training,
        "federico": experiment.method_options("federico"),
    }
    return FederationOptions.model_validate(options | changes)


def write_federation_file(path: Path, federation: FederationOptions) -> None:
    """Write a federation file.

    Options of the method that nobody has set are left out, as some follow from the members.
    """
    tables = federation.model_dump(mode="json", exclude_none=True)
    tables["federico"] = federation.federico.model_dump(exclude_unset=True)
    publish_text(path, tomli_w.dumps(tables))


def _create_site(folder: Path, setup: Setup, name: str, address: str, dialled: list[str]) -> Path:
    """Write the key, certificate and site file of one peer; returns the site file."""
    site_folder = folder / name
    request = create_request(site_folder / "keys", name, [HOST])
    approve_request(request, folder / "ca")

    experiment = setup.experiment
    memory = experiment.system.memory
    if memory is not None:
        memory = ByteSize(memory // len(setup.clients))

    options = SiteOptions(
        name=name,
        federation=Path("../federation.toml"),
        listen=(address,),
        connect=tuple(other for other in dialled if other != address),
        wait_for_members=WAIT_FOR_MEMBERS,
        data=experiment.located_data,
        partition=experiment.partition,
        split=experiment.split.model_copy(update={"seed": experiment.data_seed(setup.seed)}),
        threads=1,
        memory=memory,
    )
    site_file = site_folder / "site.toml"
    tables = options.model_dump(mode="json", exclude_none=True)
    publish_text(site_file, tomli_w.dumps(tables))
    return site_file


def start_peer(site_file: Path) -> LaunchedPeer:
    """Start the peer of a site; its output goes to a file beside the site file."""
    folder = site_file.parent
    command = [sys.executable, "-m", "federico", "peer", "run", str(site_file)]
    with (folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    return LaunchedPeer(folder.name, folder, process)


def raise_failures(peers: list[LaunchedPeer]) -> None:
    """Raise an error if a peer has failed: there is no result to show then."""
    failures = [peer.failure for peer in peers if peer.failure]
    if failures:
        raise NetworkError("\n".join(failures))


def train_alone(setup: Setup) -> list[float | None]:
    """What each client reaches by itself, in the figure that the task is judged by."""
    method = setup.method("local")
    last = setup.experiment.rounds
    for round_index in range(1, last):
        method.round(round_index)
    record = play_round(method, last, evaluate=True)
    assert record.figures is not None, "the last round is evaluated"
    metric = metric_in(record.figures)
    return record.figures[metric.recorded_as]


def free_addresses(count: int) -> list[str]:
    """Addresses on this machine that nobody uses at the moment."""
    addresses = []
    with ExitStack() as stack:
        # All are held until the last is found: else the system might give one twice.
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind((HOST, 0))
            port = held.getsockname()[1]
            addresses.append(f"{HOST}:{port}")
    return addresses
