"""Run an experiment: every method on every seed, each a cell that can be stopped at any moment and resumed."""

import importlib.metadata
import platform
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

import numpy as np
import tomli_w

from federico import compat
from federico.data.dataset import Client, Dataset
from federico.errors import RunError
from federico.exchange.processes import ProcessGroup, SingleProcess
from federico.experiment.build import Setup, prepare
from federico.experiment.config import Experiment, System, cell_options
from federico.experiment.memory_plan import (
    disk_warning,
    memory_limit,
    plan_simulation,
    scratch_folder,
)
from federico.experiment.recording import record_round
from federico.learning.models import Factory
from federico.learning.rows import RowStorage
from federico.methods.method import Method
from federico.runs import checkpoint
from federico.runs.atomic import disk_errors, publish, publish_text
from federico.runs.bundle import save_clients
from federico.runs.layout import CellDir, Description, RunDir
from federico.runs.records import Journal, Record


class Observer(Protocol):
    """Is told how the run goes, to show it to somebody."""

    def started(self, cells: Sequence[tuple[str, int]], rounds: int) -> None:
        """The cells (method, seed) to come, in this order."""

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """A cell begins, or goes on after this many rounds."""

    def round_done(self, cell: CellDir, record: Record) -> None:
        """A round is over and recorded."""

    def cell_finished(self, cell: CellDir) -> None:
        """A cell has all its rounds."""

    def say(self, message: str) -> None:
        """Something a person should know."""


def simulate(
    experiment: Experiment,
    root: Path,
    observer: Observer,
    *,
    dataset: Dataset | None = None,
    factory: Factory | None = None,
    command: str = "",
    team: ProcessGroup | None = None,
) -> RunDir:
    """Run all cells that are not finished yet, in `root/<name>`, alone or as one of a team."""
    team = team or SingleProcess()
    run = RunDir(root / experiment.name)
    # Local training first: the others are shown against it.
    methods = sorted(experiment.methods, key=lambda method: method != "local")
    setups = [
        prepare(experiment, seed, dataset=dataset, factory=factory) for seed in experiment.seeds
    ]
    compat.keep_freed_memory()
    share_of_threads = max(1, compat.thread_count() // team.processes_here)
    compat.use_threads(experiment.system.threads or share_of_threads)
    storage = _storage(setups, run, observer, team)
    with run.locked() if team.rank == 0 else nullcontext():
        if team.rank == 0:
            _open(run, setups, methods, observer)
        for setup in setups:
            for method in methods:
                run_cell(
                    run.cell(method, setup.seed), setup, method, observer, command, team, storage
                )
    return run


def _storage(
    setups: Sequence[Setup], run: RunDir, observer: Observer, team: ProcessGroup
) -> RowStorage:
    """Where models will lie; too little memory for anything is an error."""
    needed = plan_simulation(setups[0], seeds_held=len(setups), ranks=team.ranks)
    limit = memory_limit(setups[0], team.processes_here)
    place = scratch_folder(needed, limit, run.path)
    if place is not None and team.rank == 0:
        observer.say(disk_warning(needed, limit))
    return RowStorage(place)


def _open(run: RunDir, setups: Sequence[Setup], methods: Sequence[str], observer: Observer) -> None:
    """Refuse what does not belong together before anything is written; then say what is to come."""
    experiment = setups[0].experiment
    for setup in setups:
        for method in methods:
            _refuse(run.cell(method, setup.seed), setup, method)
    publish_text(run.path / "config.toml", to_toml(experiment))
    observer.started(
        [(method, setup.seed) for setup in setups for method in methods], experiment.rounds
    )
    for warning in dict.fromkeys(warning for setup in setups for warning in setup.warnings):
        observer.say(warning)


def run_cell(
    cell: CellDir,
    setup: Setup,
    method_name: str,
    observer: Observer,
    command: str = "",
    team: ProcessGroup | None = None,
    storage: RowStorage | None = None,
) -> None:
    """Bring one cell to its last round, from wherever it stands."""
    team = team or SingleProcess()
    rounds = setup.experiment.rounds
    if team.rank == 0:
        _describe_cell(cell, setup, method_name, command)
    done = team.broadcast(cell.rounds_done)
    if done < rounds:
        method = setup.method(method_name, team, storage)
        _play(cell, setup, method, observer, team)
        save_clients(cell.path / "clients", setup, method, method.predictors(rounds), team)
        if team.rank == 0:
            cell.finish(rounds)
    elif team.rank == 0:
        observer.cell_started(cell, rounds)
    if team.rank == 0:
        observer.cell_finished(cell)


def _describe_cell(cell: CellDir, setup: Setup, method_name: str, command: str) -> None:
    with disk_errors(cell.path):
        cell.path.mkdir(exist_ok=True)
    cell.describe(_describe(setup, method_name, command))
    if not (cell.path / "partition.npz").exists():
        publish(cell.path / "partition.npz", setup.shares.save)


def to_toml(experiment: Experiment) -> str:
    """The experiment with every default spelled out, readable as an experiment file."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def _refuse(cell: CellDir, setup: Setup, method: str) -> None:
    """Before anything is written: what is there must be an earlier part of this experiment."""
    cell.refuse_other(_describe(setup, method, ""))
    _refuse_fewer(cell, cell.rounds_done, setup.experiment.rounds)


def _refuse_fewer(cell: CellDir, done: int, rounds: int) -> None:
    if done > rounds:
        raise RunError(
            f"{cell.path}: already has {done} rounds, {rounds} were asked for; choose another --name"
        )


def _play(
    cell: CellDir, setup: Setup, method: Method, observer: Observer, team: ProcessGroup
) -> None:
    system, rounds, clock = setup.experiment.system, setup.experiment.rounds, method.context.clock
    journal, saves = Journal(cell.path), cell.path / "checkpoint"
    done = resume(saves, method, journal, observer.say, team)
    _refuse_fewer(cell, done, rounds)
    if team.rank == 0:
        observer.cell_started(cell, done)
    with checkpoint.Writer(saves, journal.records) as writer:
        for index in range(done + 1, rounds + 1):
            last = index == rounds
            part = play_round(method, index, evaluate=last or index % system.evaluate_every == 0)
            with clock("record"):
                parts = team.gather(part)
                record = _write_down(journal, parts) if team.rank == 0 else part
            saving = team.broadcast(checkpoint_due(system, index, writer, last=last))
            if saving:
                with clock("checkpoint"):
                    writer.wait()  # so that there is never more than one copy of the state
                    state, size = (
                        team.assemble(method.state()),
                        journal.size() if team.rank == 0 else 0,
                    )
            spent = clock.take()
            if team.rank == 0:
                journal.append_spent(
                    index, spent
                )  # before the save: a round that is saved has its seconds
                if saving:
                    writer.save(index, size, state)
                observer.round_done(cell, record)
            state = {}  # held by nobody but the writer


def checkpoint_due(system: System, index: int, writer: checkpoint.Writer, *, last: bool) -> bool:
    """After the last round, and as often as asked for; else after the first, and when the last one is some time ago."""
    every = system.checkpoint_every
    return last or ((index == 1 or writer.rested) if every is None else index % every == 0)


def _write_down(journal: Journal, parts: Sequence[Record]) -> Record:
    record = Record.joined(parts)
    journal.append(record)
    return record


def resume(
    saves: Path, method: Method, journal: Journal, say: Callable[[str], None], team: ProcessGroup
) -> int:
    """The number of rounds already played; the method is as it was after them."""
    saved = checkpoint.load_latest(saves, say) if team.rank == 0 else None
    path = team.broadcast(None if saved is None else saved.path)
    if team.rank > 0 and path is not None:
        saved = checkpoint.read(path)
    if saved is not None:
        method.restore(saved.state)
    if team.rank == 0:
        journal.rewind(saved.records_bytes if saved else 0, saved.round_index if saved else 0)
    return saved.round_index if saved else 0


def play_round(
    method: Method,
    round_index: int,
    *,
    evaluate: bool,
    distribution: Sequence[int] | None = None,
) -> Record:
    """Play one round and, where asked for, measure what it has come to on the clients' test data.

    `distribution`: the clients' true distributions, for the record only.
    """
    context = method.context
    played = method.round(round_index)

    scores = None
    if evaluate:
        with context.clock("evaluate"):
            mixtures = method.predictors(round_index)
            scores = method.learner.score(mixtures.bank, mixtures.visits, mixtures.weights)
            scores = scores.take(context.hosted)

    with context.clock("record"):
        traffic = method.exchange.traffic.take()
        return record_round(
            round_index,
            method.names,
            context.hosted,
            context.count,
            scores,
            played,
            traffic,
            distribution,
        )


def _describe(setup: Setup, method: str, command: str) -> Description:
    layout, ids = setup.layout, setup.shares.ids
    return Description(
        method=method,
        seed=setup.seed,
        task=setup.schema.task,
        clients=list(ids),
        distribution=None if setup.shares.distribution is None else list(setup.shares.distribution),
        train_samples=[len(client.train) for client in setup.clients],
        test_samples=[len(client.test) for client in setup.clients],
        label_names=list(setup.schema.label_names),
        label_counts=[
            _label_counts(client, setup.schema.outputs)
            for client in setup.clients
            if setup.schema.label_names
        ],
        model_parameters=layout.parameters,
        model_bytes=layout.size * layout.dtype.itemsize,
        data_hash=setup.data_hash,
        partition_hash=setup.shares.hash,
        options=cell_options(setup.experiment, method),
        versions={name: importlib.metadata.version(name) for name in ("federico", "torch", "numpy")}
        | {"python": platform.python_version()},
        command=command,
    )


def _label_counts(client: Client, outputs: int) -> list[int]:
    return [int(count) for count in np.bincount(client.train.y.astype(np.int64), minlength=outputs)]
