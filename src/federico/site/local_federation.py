"""A whole federation on one machine, to try it out: real processes, sockets and certificates."""

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import tomli_w
from pydantic import ByteSize

from federico.config_file import validated
from federico.errors import ConfigError, RunError
from federico.experiment.build import Setup
from federico.experiment.config import Experiment
from federico.experiment.runner import play_round
from federico.options import Options
from federico.runs.atomic import disk_errors, publish_text
from federico.runs.metric import metric_in
from federico.site.certificates import (
    approve_request,
    create_authority,
    create_request,
    renew_certificate,
)
from federico.site.federation_file import FederationOptions, SampleOptions
from federico.site.site_file import SiteOptions
from federico.site.status import Status, read_status

HOST = "127.0.0.1"
FEDERATION_FILE = "federation.toml"
DIALLED = 2
"""How many peers the others are told to dial; they hear of the rest from these."""
WAIT_FOR_MEMBERS = 60.0
"""Seconds that peers wait for each other: many processes on one machine take long to start."""


RESTART_PAUSE = 1.0
"""Seconds before a peer that has died is started again."""
OUTPUT_BYTES = 1 << 20
"""What a peer has written is put aside at its next start when it has grown to this."""
FINAL_CODES = (2, 3, 4, 5, 6)
"""Exit codes of errors that a second start would only repeat, such as invalid data."""
STOP_SECONDS = 90.0
"""How long peers that are told to stop get; a peer bounds that itself (`stop_within`)."""


class LaunchedPeer:
    """The peer of a site, whose process is started again when it dies, a few times."""

    def __init__(self, site_file: Path, restarts: int) -> None:
        """`restarts`: how often it is started again at most."""
        self.folder = site_file.parent
        self.name = self.folder.name
        self.restarts_left = restarts
        self._site_file = site_file
        self._died: float | None = None
        self.process = self._start()

    @property
    def status(self) -> Status | None:
        """The last status that the peer wrote, if it has written one."""
        try:
            return read_status(self.folder / "state")
        except RunError:
            return None

    @property
    def failure(self) -> str:
        """The exit code and the last line of output of a peer that has failed; else empty."""
        code = self.process.poll()
        if not code:
            return ""
        if code < 0:
            return f"{self.name} was killed by signal {-code}"
        file = self.folder / "output.txt"
        output = file.read_text(encoding="utf-8", errors="replace").strip()
        last_line = "without a word"
        if output:
            last_line = output.splitlines()[-1]
        return f"{self.name} ended with code {code}: {last_line}"

    @property
    def comes_back(self) -> bool:
        """Whether a peer that has failed will be started again."""
        code = self.process.poll()
        return bool(code) and code not in FINAL_CODES and self.restarts_left > 0

    @property
    def active(self) -> bool:
        """Whether the peer runs, or will again."""
        return self.process.poll() is None or self.comes_back

    def tend(self) -> None:
        """Start a peer that has died again, after a pause."""
        if not self.comes_back:
            return
        if self._died is None:
            self._died = time.monotonic()
        elif time.monotonic() - self._died >= RESTART_PAUSE:
            self._died = None
            self.restarts_left -= 1
            self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        # Quiet: the peer has a log of its own, which is rotated. Only errors go to this file.
        # Trusted: its files were written here, for an experiment whose code has run already.
        command = [sys.executable, "-m", "federico", "peer", "run", "--quiet", "--trust"]
        said = self.folder / "output.txt"
        if said.exists() and said.stat().st_size > OUTPUT_BYTES:
            said.replace(said.with_suffix(".txt.1"))
        with said.open("ab") as output:
            return subprocess.Popen([*command, str(self._site_file)], stdout=output, stderr=output)


def stop_peers(peers: Sequence[LaunchedPeer]) -> None:
    """Tell all peers to stop, and wait for them; one that does not leave in time is killed."""
    for peer in peers:
        if peer.process.poll() is None:
            peer.process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for peer in peers:
        try:
            peer.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            peer.process.kill()
            peer.process.wait()


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
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_authority(folder / "ca", f"{setup.experiment.name}-authority")
    for name in setup.shares.ids:
        request = create_request(folder / name / "keys", name, [HOST])
        approve_request(request, folder / "ca")
    site_files = _write_site_files(folder, setup)
    # Last: where there is one, everything is there.
    federation = federation_options(setup, **changes)
    publish_text(folder / FEDERATION_FILE, federation_text(federation))
    return site_files


def open_federation(folder: Path, setup: Setup) -> dict[str, Path]:
    """The federation of this experiment in a folder: the one that is there, or a new one.

    One that is there keeps its keys and all that its peers have learned. Its peers get other
    ports, as somebody else may use the earlier ones by now.
    """
    file = folder / FEDERATION_FILE
    if not file.exists():
        return create_federation(folder, setup)
    if file.read_text(encoding="utf-8") != federation_text(federation_options(setup)):
        raise RunError(
            f"{folder}: holds another federation, of another experiment or number of peers; "
            "choose another --directory, or delete this one to start over"
        )
    for name in setup.shares.ids:
        renew_certificate(folder / name / "keys" / f"{name}.pem", folder / "ca")
    return _write_site_files(folder, setup)


def _write_site_files(folder: Path, setup: Setup) -> dict[str, Path]:
    names = setup.shares.ids
    addresses = free_addresses(len(names))
    dialled = addresses[:DIALLED]
    site_files = {}
    for name, address in zip(names, addresses, strict=True):
        site_files[name] = _write_site_file(folder, setup, name, address, dialled)
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
        "privacy": experiment.privacy,
        "federico": experiment.method_options("federico"),
    }
    return FederationOptions.model_validate(options | changes)


def federation_text(federation: FederationOptions) -> str:
    """The text of a federation file.

    Options of the method that nobody has set are left out, as some follow from the members.
    """
    tables = federation.model_dump(mode="json", exclude_none=True)
    tables["federico"] = federation.federico.model_dump(exclude_unset=True)
    return tomli_w.dumps(tables)


def _write_site_file(
    folder: Path, setup: Setup, name: str, address: str, dialled: list[str]
) -> Path:
    """Write the site file of one peer; returns it."""
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
    site_file = folder / name / "site.toml"
    tables = options.model_dump(mode="json", exclude_none=True)
    publish_text(site_file, tomli_w.dumps(tables))
    return site_file


def train_alone(setup: Setup, rounds: int) -> list[float | None]:
    """What each client reaches by itself in this many rounds, in the figure of its task."""
    method = setup.method("local")
    for round_index in range(1, rounds):
        method.round(round_index)
    record = play_round(method, rounds, evaluate=True).record
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
