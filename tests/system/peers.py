"""Real peers for tests: their sites are made as `federico launch` makes them.

They are forked from a process that has imported everything, which saves seconds for each.
"""

import multiprocessing
import os
import sys
import time
import tomllib
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch

from federico.cli.main import main
from federico.errors import RunError
from federico.exchange.protocol import Updates
from federico.experiment.build import Setup, prepare
from federico.experiment.config import validate
from federico.learning.rows import Rows
from federico.methods.federico import Federico
from federico.network import client, exchange, update_store
from federico.network.roster import Roster
from federico.network.server import PeerServer
from federico.network.wire.messages import FORMAT
from federico.runs.records import Record, read_records
from federico.site.local_federation import create_federation
from federico.site.status import Status, read_status

SMALL = {
    "name": "small",
    "methods": ["federico"],
    "data": {"kind": "digits", "noise": 0.5},
    "split": {"test_fraction": 0.5, "max_train": 30},
    "model": {"kind": "mlp", "hidden": [16]},
    "training": {"batch_size": 8},
    "system": {"threads": 1},
}
PATIENCE = 120.0
"""Seconds until a test gives up on something that should come; machines may be busy."""


def small(clients: int, *, groups: int = 1, seed: int = 0, **settings: object) -> Setup:
    """A small experiment on the digits, cut for this many peers."""
    partition = {"kind": "label-groups", "clients": clients, "groups": groups}
    return prepare(validate({**SMALL, "partition": partition, "seeds": [seed], **settings}), seed)


def fork_server() -> ForkServerContext:
    """What starts peers: a process that has imported all."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["peers", "federico.site.runner", "federico.site.relay", "sklearn.datasets"]
    )
    return context


class Site:
    """A site on disk, and its peer while there is one."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = file.parent.name
        self.state = file.parent / "state"
        self._context = fork_server()
        self.process: ForkServerProcess | None = None

    def start(self, trick: str = "") -> None:
        """Honest, or with one of the tricks that `hostile` and `poison` know."""
        command = ["peer", str(self.file)]
        self.process = self._context.Process(target=run_command, args=(command, self.output, trick))
        self.process.start()

    @property
    def output(self) -> Path:
        return self.file.parent / "output.txt"

    @property
    def running(self) -> ForkServerProcess:
        assert self.process is not None
        return self.process

    @property
    def pid(self) -> int:
        pid = self.running.pid
        assert pid is not None
        return pid

    def wait(self) -> int:
        """Its exit code; negative: the signal it died of."""
        self.running.join(PATIENCE)
        code = self.running.exitcode
        assert code is not None, f"{self.name} does not end: {self.said}"
        return code

    def succeeds(self) -> None:
        """Wait for its end; if that is an error, the test says what the peer said."""
        code = self.wait()
        assert code == 0, f"{self.name} ended with exit code {code}: {self.said}"

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def status(self) -> Status | None:
        try:
            return read_status(self.state)
        except RunError:
            return None

    @property
    def round(self) -> int:
        return self.status.round if self.status else 0

    def sees(self, other: str) -> bool:
        status = self.status
        return status is not None and status.members[other].here

    @property
    def records(self) -> list[Record]:
        return read_records(self.state)

    @property
    def options(self) -> dict[str, Any]:
        return tomllib.loads(self.file.read_text())

    def set(self, **options: object) -> None:
        """Change the site file."""
        self.file.write_text(tomli_w.dumps({**self.options, **options}))


class Federation:
    """All sites of one federation; leaving the block leaves no peer behind."""

    def __init__(self, folder: Path, setup: Setup, **agreed: object) -> None:
        site_files = create_federation(folder, setup, **agreed)
        self.sites = {name: Site(file) for name, file in site_files.items()}
        self._others: list[ForkServerProcess] = []

    def __enter__(self) -> "Federation":
        return self

    def __exit__(self, *_: object) -> None:
        for process in [site.process for site in self] + self._others:
            if process is not None:
                process.kill()
                process.join()

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.sites.values())

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def start(self) -> None:
        for site in self:
            site.start()

    def succeeds(self) -> None:
        """Wait for the end of all of them."""
        for site in self:
            site.succeeds()

    def run(self, *arguments: str, output: Path) -> None:
        """Another command beside the peers, as long as the block lasts."""
        process = fork_server().Process(target=run_command, args=(list(arguments), output))
        process.start()
        self._others.append(process)


DIGITS = {
    "model": {"kind": "mlp", "hidden": [64]},
    "split": {"test_fraction": 0.5, "max_train": 60},
    "training": {"batch_size": 10, "optimizer": {"kind": "adam", "learning_rate": 0.01}},
}
"""The settings of experiments/digits.toml, 60 noisy images a client."""


def honest_beside(folder: Path, trick: str, seed: int = 0, count: int = 2) -> float:
    """What members reach on average beside some of eight, on each one's own test data.

    These `count` are "honest" or "absent", or do one of the tricks of `POISONED`.
    """
    setup = small(8, groups=3, seed=seed, rounds=30, **DIGITS)
    with Federation(folder, setup) as federation:
        sites = list(federation)
        honest = sites[:-count]  # all sites dial the first ones
        for site in federation:
            site.set(wait_for_members=5.0 if trick == "absent" else 60.0, keep_serving=2.0)
        if trick != "absent":
            for site in sites[-count:]:
                site.start("" if trick == "honest" else trick)
        for site in honest:
            site.start()
        for site in honest:
            site.succeeds()
        reached = [site.records[-1].figures["accuracy"][0] for site in honest]  # type: ignore[index]
        return float(np.mean(reached))  # type: ignore[arg-type]


def until(what: str, reached: Callable[[], bool]) -> None:
    """Wait for something that will come."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        late = time.monotonic() > deadline
        assert not late, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.05)


def run_command(arguments: list[str], output: Path, trick: str = "") -> None:
    """What `federico ...` does, in a process that need not import anything any more."""
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if trick in POISONED:
        poison(*POISONED[trick])
    elif trick == "stuck":
        Federico.m_step = get_stuck  # type: ignore[method-assign]
    elif trick == "older":
        Roster.__post_init__ = speak_an_older_protocol  # type: ignore[method-assign]
    elif trick:
        hostile(trick)
    sys.argv = ["federico", *arguments]
    main()


def get_stuck(*_: Any) -> Updates:
    """A training step that never ends."""
    while True:
        time.sleep(1.0)


def speak_an_older_protocol(roster: Roster) -> None:
    """What the program of an earlier release says of itself."""
    object.__setattr__(roster, "protocol", FORMAT - 1)


def hostile(trick: str) -> None:
    """Turn this process into a peer with a good certificate that sends what nobody should send."""
    spoil = {"nan": np.nan, "huge": 1e12}.get(trick, 1.0)
    publish = PeerServer.publish
    m_step = Federico.m_step
    request = client.Request

    def publish_spoilt(self: Any, version: int, row: Any) -> None:
        publish(self, version, row * np.float32(spoil))

    def push_spoilt(*arguments: Any) -> Any:
        updates = m_step(*arguments)
        for row in updates.rows:
            row.mul_(spoil)
        return updates

    def request_with_too_much(key: str, head: bytes, payload: bytes | None = None) -> Any:
        if payload:
            payload += bytes(3 << 20)
        return request(key, head, payload)

    # A hostile peer does not check what it sends.
    exchange.square_sum = lambda _: 1.0  # type: ignore[attr-defined]
    update_store.square_sum = lambda _: 1.0  # type: ignore[attr-defined]
    PeerServer.publish = publish_spoilt  # type: ignore[method-assign]
    Federico.m_step = push_spoilt  # type: ignore[method-assign]
    if trick == "oversized":
        client.Request = request_with_too_much  # type: ignore[misc,assignment]


SpoilDeltas = Callable[[torch.Tensor], torch.Tensor]
"""What to send instead of the deltas that were computed for others, [owners, size]."""


def noise(deltas: torch.Tensor) -> torch.Tensor:
    """Random directions, ten times as long as what was computed."""
    drawn = torch.randn_like(deltas)
    lengths = deltas.norm(dim=1) / drawn.norm(dim=1)
    return 10.0 * drawn * lengths[:, None]


def a_little_is_enough(deltas: torch.Tensor) -> torch.Tensor:
    """ALIE: each coordinate less one and a half standard deviations.

    A member of a real federation sees no honest update but those that it has computed itself, so
    the deviations are those of its updates for all owners.
    """
    return deltas - 1.5 * deltas.std(dim=0)


POISONED: dict[str, tuple[SpoilDeltas, float]] = {
    "turned round, ten times as long": (lambda deltas: -10.0 * deltas, 1e6),
    "turned round": (lambda deltas: -deltas, 60.0),
    "noise": (noise, 1e6),
    "a little is enough": (a_little_is_enough, 60.0),
}
"""What is made of updates, and what they are said to count for."""


def poison(spoil: SpoilDeltas, coefficient: float) -> None:
    """Turn this process into a peer that keeps to the protocol, but sends everybody bad updates.

    The model that it serves is trained honestly.
    """
    m_step = Federico.m_step

    def sample_everybody(self: Federico, round_index: int) -> list[Any]:
        others = np.setdiff1d(np.arange(self.context.count), self.context.hosted)
        return [others if round_index > 1 else others[:0]]

    def push_poisoned(self: Federico, visits: Any, round_index: int) -> Updates:
        to_own = visits[np.flatnonzero(visits.owners == visits.clients)]
        honest = m_step(self, to_own, round_index)
        to_others = visits[np.flatnonzero(visits.owners != visits.clients)]
        deltas = self.learner.train(self.bank, to_others, round_index, epochs=1).as_tensor()
        return Updates(
            np.append(honest.owners, to_others.owners),
            np.append(honest.contributors, to_others.clients),
            np.append(honest.coefficients, np.full(len(to_others), coefficient)),
            Rows.of(torch.cat([honest.rows.as_tensor(), spoil(deltas)])),
        )

    Federico.sample = sample_everybody  # type: ignore[method-assign]
    Federico.m_step = push_poisoned  # type: ignore[method-assign]
