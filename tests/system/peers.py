"""Real peers for tests: laid out as `federico launch` lays them out, started from a process that has imported all."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from federico.cli.main import main
from federico.errors import RunError
from federico.experiment.config import validate
from federico.experiment.records import Record, read_records
from federico.experiment.setup import Setup, prepare
from federico.node.launch import lay_out
from federico.node.state import Status, read_status

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
"""Seconds until a test gives up on something that should come; it comes within a few, but machines may be busy."""


def small(clients: int, *, groups: int = 1, seed: int = 0, **settings: object) -> Setup:
    """A small experiment on the digits, cut for this many peers."""
    partition = {"kind": "label-groups", "clients": clients, "groups": groups}
    return prepare(validate({**SMALL, "partition": partition, "seeds": [seed], **settings}), seed)


class Site:
    """A site on disk, and its peer while there is one."""

    def __init__(self, file: Path, context: ForkServerContext) -> None:
        self.file, self.name, self.state = file, file.parent.name, file.parent / "state"
        self._context = context
        self.process: ForkServerProcess | None = None

    def start(self) -> None:
        self.process = self._context.Process(target=_peer, args=(self.file, self.file.parent / "output.txt"))
        self.process.start()

    @property
    def running(self) -> ForkServerProcess:
        assert self.process is not None
        return self.process

    def wait(self) -> int:
        """Its exit code; negative: the signal it died of."""
        self.running.join(PATIENCE)
        code = self.running.exitcode
        assert code is not None, f"{self.name} does not end: {self.said}"
        return code

    @property
    def said(self) -> str:
        return (self.file.parent / "output.txt").read_text()

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

    def set(self, **options: str) -> None:
        """Change lines of the site file; values as TOML writes them."""
        lines = self.file.read_text().splitlines()
        kept = [line for line in lines if line.partition(" = ")[0] not in options]
        self.file.write_text("\n".join([*(f"{key} = {value}" for key, value in options.items()), *kept]) + "\n")


class Federation:
    """All sites of one federation; leaving the block leaves no peer behind."""

    def __init__(self, folder: Path, setup: Setup, **agreed: object) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["federico.cli.peer", "federico.cli.main", "sklearn.datasets"])
        self.sites = {name: Site(file, context) for name, file in lay_out(folder, setup, **agreed).items()}

    def __enter__(self) -> "Federation":
        return self

    def __exit__(self, *_: object) -> None:
        for site in self:
            if site.process is not None:
                site.process.kill()
                site.process.join()

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.sites.values())

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def start(self) -> None:
        for site in self:
            site.start()


def until(what: str, reached: Callable[[], bool]) -> None:
    """Wait for something that will come."""
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.05)


def _peer(site: Path, output: Path) -> None:
    """What `federico peer` does, in a process that need not import anything any more."""
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["federico", "peer", str(site)]
    main()
