"""A whole federation on one machine, for trying it out: real processes, real sockets, throw-away certificates."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from pydantic import ByteSize

from federico.errors import ConfigError, NetworkError, RunError
from federico.experiment.build import Setup
from federico.experiment.config import Experiment
from federico.experiment.runner import play_round
from federico.options import Options
from federico.runs.atomic import publish_text
from federico.site import certificates as pki
from federico.site.federation_file import Agreement, Sample
from federico.site.site_file import SiteOptions
from federico.site.state import Status, read_status

HOST = "127.0.0.1"
SEEDS = 2
"""How many peers the others are told of; they find the rest through these."""
PATIENCE = 60.0


@dataclass(frozen=True)
class Launched:
    """A peer's process and where its site is."""

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def status(self) -> Status | None:
        """What it last said, if it has said something."""
        try:
            return read_status(self.folder / "state")
        except RunError:
            return None

    def failure(self) -> str:
        """Its last words, if it did not end well."""
        code = self.process.poll()
        if not code:
            return ""
        words = (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace").strip()
        return f"{self.name} ended with code {code}: {words.rpartition(chr(10))[2] or 'without a word'}"


def with_clients(experiment: Experiment, peers: int) -> Experiment:
    """The experiment cut for this many clients, where its partition can be."""
    partition: Options = experiment.partition
    if "clients" in type(partition).model_fields:
        partition = type(partition).model_validate({**partition.model_dump(), "clients": peers})
    return experiment.model_copy(update={"partition": partition, "methods": ("federico",)})


def lay_out(folder: Path, setup: Setup, **agreed: object) -> dict[str, Path]:
    """Write the federation file, an authority, and per client a site with its keys; returns the site files."""
    names, experiment = setup.shares.ids, setup.experiment
    pki.init(folder / "ca", f"{experiment.name}-authority")
    write_agreement(folder / "federation.toml", agreement(setup, **agreed))
    addresses = dict(zip(names, free_addresses(len(names)), strict=True))
    seeds = list(addresses.values())[:SEEDS]
    return {name: _site(folder, setup, name, addresses[name], seeds) for name in names}


def agreement(setup: Setup, **agreed: object) -> Agreement:
    """What the members of such a federation agree on; `agreed` adds to what the experiment says."""
    experiment = setup.experiment
    return Agreement.model_validate(
        {
            "name": experiment.name,
            "members": setup.shares.ids,
            "rounds": experiment.rounds,
            "seed": setup.seed,
            "dtype": experiment.system.dtype,
            "sample": Sample.of(setup.schema),
            "model": experiment.model,
            "training": experiment.training,
            "federico": experiment.federico,
            **agreed,
        }
    )


def _site(folder: Path, setup: Setup, name: str, address: str, seeds: list[str]) -> Path:
    home, experiment, allowed = folder / name, setup.experiment, setup.experiment.system.memory
    pki.approve(pki.request(home / "keys", name, [HOST]), folder / "ca")
    options = SiteOptions(
        name=name,
        federation=Path("../federation.toml"),
        listen=(address,),
        connect=tuple(seed for seed in seeds if seed != address),
        gather=PATIENCE,
        data=experiment.data,
        partition=experiment.partition,
        split=experiment.split.model_copy(update={"seed": experiment.data_seed(setup.seed)}),
        threads=1,
        memory=None if allowed is None else ByteSize(allowed // len(setup.clients)),
    )
    publish_text(
        home / "site.toml", tomli_w.dumps(options.model_dump(mode="json", exclude_none=True))
    )
    return home / "site.toml"


def start(site_file: Path) -> Launched:
    """Start the peer of a site; what it says goes to a file beside the site file."""
    command = [sys.executable, "-m", "federico.cli.main", "peer", "run", str(site_file)]
    with (site_file.parent / "output.txt").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    return Launched(site_file.parent.name, site_file.parent, process)


def train_alone(setup: Setup) -> list[float | None]:
    """What each client would have come to by itself: its accuracy, or its loss in regression."""
    method, rounds = setup.method("local"), setup.experiment.rounds
    for index in range(1, rounds):
        method.round(index)
    record = play_round(method, rounds, evaluate=True)
    return list(record.accuracy or record.loss or [])


def refuse_other_count(setup: Setup, peers: int) -> None:
    """A natural partition has as many parts as it has."""
    if len(setup.shares.ids) != peers:
        raise ConfigError(
            f"{peers} peers: this experiment's data has {len(setup.shares.ids)} clients; say so many"
        )


def free_addresses(count: int) -> list[str]:
    """Addresses on this machine that nobody uses now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [f"{HOST}:{one.getsockname()[1]}" for one in sockets]


def refuse_failures(peers: list[Launched]) -> None:
    """One who could not even play is worth an error, not a table."""
    failures = [failure for peer in peers if (failure := peer.failure())]
    if failures:
        raise NetworkError("\n".join(failures))


def write_agreement(path: Path, agreed: Agreement) -> None:
    """A federation file. Options of the method that nobody has set stay open: some follow from the members."""
    tables = agreed.model_dump(mode="json", exclude_none=True)
    publish_text(
        path, tomli_w.dumps(tables | {"federico": agreed.federico.model_dump(exclude_unset=True)})
    )
