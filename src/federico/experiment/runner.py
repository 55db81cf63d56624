"""Runs an experiment: every cell that has no line of results yet, from wherever it stands.

Before the first round every cell is checked, so that no fault surfaces after hours. A cell saves
checkpoints while it runs. When it has all its rounds it saves the clients' personal models and
leaves one line in `results.jsonl`.

What happens on Ctrl-C (SIGINT): the command line says so and ends with exit code 130, in the middle
of a round if need be. SIGTERM and SIGKILL end the process at once. In each case the same command
resumes from the last checkpoints, and the end is that of a run that nobody disturbed, bit for bit.
Worker processes (`--jobs`) end with the process that started them.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from federico import compat
from federico.data.dataset import Dataset
from federico.data.summary import DataSummary
from federico.errors import ConfigError, FedericoError, RunError
from federico.exchange.processes import ProcessGroup, SingleProcess
from federico.experiment.best_round import BestRounds, KeptModels
from federico.experiment.build import Setup
from federico.experiment.config import Experiment, System
from federico.experiment.description import describe
from federico.experiment.evaluation import evaluate as evaluate_predictors
from federico.experiment.figure_check import check_figure
from federico.experiment.grid import Cell, Grid, identity_of, without_rate
from federico.experiment.memory_plan import (
    disk_warning,
    memory_limit,
    plan_simulation,
    scratch_folder,
)
from federico.experiment.observer import Callback, Observer
from federico.experiment.personal_models import save_clients
from federico.experiment.problems import ProblemCache, by_problem, explain
from federico.experiment.recording import record_round
from federico.experiment.selection import (
    EVERYTHING,
    NOTHING_KNOWN,
    KnownResults,
    Selection,
    best_cells,
    first_cells,
)
from federico.experiment.sharing_hints import sharing_hints
from federico.experiment.track_options import TrackOptions
from federico.experiment.tracking import tracked
from federico.experiment.workers import run_in_workers
from federico.learning.models import Factory
from federico.learning.rows import RowStorage
from federico.methods.method import Method, Mixtures, Round
from federico.runs import checkpoint
from federico.runs.atomic import publish, publish_text
from federico.runs.cell_result import cell_result
from federico.runs.comparison import Comparisons
from federico.runs.layout import CellDir, RunDir, another_experiment, first_difference
from federico.runs.records import Journal, Record, read_last_evaluated, read_last_record
from federico.runs.results import append_result, read_results
from federico.runs.table import write_table

PATIENCE = 60.0
"""Seconds that a worker process whose parent was killed may take to leave its cell."""


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
    """Run all cells of an experiment that are not finished yet, in `root/<name>`."""
    return run_grid(
        Grid(experiment),
        root,
        observer,
        dataset=dataset,
        factory=factory,
        command=command,
        team=team,
    )


def run_grid(
    grid: Grid,
    root: Path,
    observer: Observer,
    *,
    selection: Selection = EVERYTHING,
    jobs: int = 1,
    known: KnownResults = NOTHING_KNOWN,
    dataset: Dataset | None = None,
    factory: Factory | None = None,
    command: str = "",
    team: ProcessGroup | None = None,
) -> RunDir:
    """Run the selected cells of a grid that are not finished yet, in `root/<name>`.

    `team`: the processes that run it together, one of which this is. `jobs`: how many cells run at
    a time, each in a process of its own. `dataset` and `factory`: where Python brings its own.
    """
    team = team or SingleProcess()
    run = RunDir(root / grid.name)
    selection.check(grid)
    check_figure(grid)
    track = grid.experiment.track if team.rank == 0 else TrackOptions()
    with tracked(observer, track, run.path) as watching:
        work = GridRun(grid, run, watching, ProblemCache(dataset, factory), command, team, jobs)
        first = work.agreed(first_cells(grid, selection, run, known))
        check_all = dataset is not None or factory is not None
        work.check(first, everything=check_all)
        with run.locked() if team.rank == 0 else nullcontext():
            work.open(first)
            work.announce()
            work.play(first)
            if "best" in selection.kinds(grid):
                best = work.agreed(best_cells(grid, selection, run, known))
                work.check(best, everything=False)
                work.announce()
                work.play(best)
    return run


def is_finished(
    grid: Grid, root: Path, selection: Selection, known: KnownResults = NOTHING_KNOWN
) -> bool:
    """Whether there is nothing left to run, and nothing there that a run would have to refuse."""
    selection.check(grid)
    run = RunDir(root / grid.name)
    if not run.path.exists():
        return False
    work = GridRun(grid, run, Callback(), ProblemCache(), "", SingleProcess(), jobs=1)
    cells = first_cells(grid, selection, run, known)
    if "best" in selection.kinds(grid):
        best = best_cells(grid, selection, run, known)
        if len(best) < len(selection.places(grid)) * len(grid.experiment.seeds):
            return False
        cells += best
    refuse_changed(run, cells)
    work.refuse_fewer_rounds(cells)
    return not work.unfinished(cells)


class GridRun:
    """The running of one grid in one run directory."""

    def __init__(
        self,
        grid: Grid,
        run: RunDir,
        observer: Observer,
        problems: ProblemCache,
        command: str,
        team: ProcessGroup,
        jobs: int,
    ) -> None:
        self.grid = grid
        self.run = run
        self.observer = observer
        self.problems = problems
        self.command = command
        self.team = team
        self.jobs = jobs
        self.folders = _folders(run)
        self._data: DataSummary | None = None
        self._data_shown = False
        self._remarks: list[str] = []

    def agreed(self, cells: list[Cell]) -> list[Cell]:
        """The cells as the first process of the team has read them off the results."""
        if self.team.ranks == 1:
            return cells
        return self.team.broadcast(cells)

    def check(self, cells: Sequence[Cell], *, everything: bool) -> None:
        """Find what is wrong with any cell before the first round: settings, data, models, memory.

        Cells with results are left out, unless `everything` is asked for: then data and model are
        not named by the settings, and may be others than before.
        """
        refuse_changed(self.run, cells)
        to_run = self.unfinished(cells)
        unfinished = cells if everything else to_run
        several = bool(self.grid.options.rows) or len(self.grid.columns) > 1
        checked: set[tuple[str, int]] = set()
        planned: set[str] = set()
        for cell in by_problem(unfinished):
            # A learning rate has nothing that could be wrong, and memory no seed.
            place = (cell.settings, cell.seed)
            if place in checked:
                continue
            checked.add(place)
            try:
                setup = self.problems.setup(cell)
                if cell in to_run and self._data is None:
                    self._data = self.problems.summary(cell)
                self.folder(cell).refuse_other(describe(cell, setup, ""))
                if cell.settings not in planned:
                    _, remark = plan_storage(setup, self.run, self._processes(), self.team.ranks)
                    if remark and not planned:
                        self._remarks.append(remark)
                    planned.add(cell.settings)
            except FedericoError as error:
                raise explain(error, cell, several=several) from error
            self._remarks += setup.warnings
            self._remarks += sharing_hints(cell.experiment, cell.method, setup.layout)

    def announce(self) -> None:
        """Show the data of the first cell to be run, and what is remarkable about any of them."""
        if self.team.rank > 0:
            return
        if self._data is not None and not self._data_shown:
            self.observer.data_loaded(self._data)
            self._data_shown = True
        for remark in dict.fromkeys(self._remarks):
            self.observer.say(remark)
        self._remarks = []

    def refuse_fewer_rounds(self, cells: Sequence[Cell]) -> None:
        """Refuse to ask for fewer rounds than a cell has."""
        for cell in cells:
            folder = self.folder(cell)
            _refuse_fewer(folder.path, folder.rounds_done, cell.rounds)

    def open(self, cells: Sequence[Cell]) -> None:
        """Write down what is going to be run."""
        if self.team.rank > 0:
            return
        self.refuse_fewer_rounds(cells)
        publish_text(self.run.path / "config.toml", self.grid.to_toml())
        write_table(self.run.path, self.grid.table())

    def play(self, cells: Sequence[Cell]) -> None:
        """Bring all cells to their last round and write down their results."""
        results, _ = read_results(self.run.path) if self.team.rank == 0 else ([], [])
        if self.team.rank == 0:
            self.observer.started(cells, results)

        # One cell may stand in several rows: it is run once and leaves a line for each.
        by_identity: dict[str, list[Cell]] = {}
        for cell in self.unfinished(cells):
            by_identity.setdefault(cell.identity, []).append(cell)
        waiting = [same[0] for same in by_identity.values()]
        if self.jobs > 1 and len(waiting) > 1:
            size = min(self.jobs, len(waiting))
            work = [(cell, self.folder(cell)) for cell in waiting]
            for cell, folder in run_in_workers(work, size, run_one, self.observer, self.command):
                self._finish(by_identity[cell.identity], folder)
            return

        with _threads_restored() as threads:
            for cell in waiting:
                folder = self.folder(cell)
                run_one(
                    cell, folder, self.problems, self.observer, self.command, self.team, threads
                )
                self._finish(by_identity[cell.identity], folder)

    def _finish(self, cells: Sequence[Cell], folder: CellDir) -> None:
        """Write the lines of results of a cell that has all its rounds."""
        if self.team.rank > 0:
            return
        results = []
        for cell in cells:
            result = cell_result(
                folder,
                row=cell.row,
                title=cell.title,
                column=cell.column,
                rate_kind=cell.rate_kind,
                command=self.command,
            )
            append_result(self.run.path, result)
            results.append(result)
        self.observer.cell_finished(folder, results)

    def unfinished(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells that are not finished; all processes of the team agree on them.

        Finished means: it has a line of results, and its folder, if there is one, has all rounds.
        """
        results, _ = read_results(self.run.path)
        keys = {result.key for result in results}
        missing = []
        for place, cell in enumerate(cells):
            folder = self.folder(cell)
            begun = (folder.path / "cell.json").exists()
            stopped_early = begun and folder.rounds_done < cell.rounds
            if cell.key not in keys or stopped_early:
                missing.append(place)
        return [cells[place] for place in self.team.broadcast(missing)]

    def folder(self, cell: Cell) -> CellDir:
        """Where the cell is, or is going to be."""
        name = self.folders.get(cell.identity, self.grid.folder_name(cell))
        return CellDir(self.run.path / name)

    def _processes(self) -> int:
        """How many processes share this machine."""
        return self.team.processes_here * self.jobs


def _folders(run: RunDir) -> dict[str, str]:
    """The folders that hold cells, whatever they are called, by what the cells are."""
    found = {}
    for folder in run.cells():
        about = folder.description
        found[identity_of(about.method, about.seed, about.options)] = folder.path.name
    return found


def refuse_changed(run: RunDir, cells: Sequence[Cell]) -> None:
    """Refuse a run directory in which a row had other settings than it has now."""
    wanted = {(cell.row, cell.column, cell.rate_kind): cell for cell in cells}
    for folder in run.cells():
        about = folder.description
        cell = wanted.get((about.row, about.column, about.rate_kind))
        if cell is None:
            continue
        before = about.options
        now = cell.options
        if about.rate_kind != "given":
            before = without_rate(before)
            now = without_rate(now)
        difference = first_difference(before, now)
        if difference:
            raise another_experiment(folder.path, difference)


def run_one(
    cell: Cell,
    folder: CellDir,
    problems: ProblemCache,
    observer: Observer,
    command: str,
    team: ProcessGroup,
    threads: int,
) -> None:
    """Run one cell in this process, which uses its share of this many threads."""
    setup = problems.setup(cell)
    storage = prepare_process(setup, RunDir(folder.path.parent), team, threads)
    run_cell(folder, cell, setup, observer, command, team, storage)


def prepare_process(setup: Setup, run: RunDir, team: ProcessGroup, threads: int) -> RowStorage:
    """Share memory and this many threads with the processes here; returns where models lie."""
    compat.keep_freed_memory()
    share_of_threads = max(1, threads // team.processes_here)
    compat.use_threads(setup.experiment.system.threads or share_of_threads)
    storage, _ = plan_storage(setup, run, team.processes_here, team.ranks)
    return storage


def plan_storage(
    setup: Setup, run: RunDir, processes_here: int, ranks: int
) -> tuple[RowStorage, str]:
    """Where models will lie, and what to say about it; too little memory is an error."""
    needed = plan_simulation(setup, ranks=ranks)
    limit = memory_limit(setup, processes_here)
    place = scratch_folder(needed, limit, run.path)
    remark = "" if place is None else disk_warning(needed, limit)
    return RowStorage(place), remark


@contextmanager
def _threads_restored() -> Iterator[int]:
    """The number of threads, which is afterwards as it was: what a cell sets is not for others."""
    threads = compat.thread_count()
    try:
        yield threads
    finally:
        compat.use_threads(threads)


def run_cell(
    folder: CellDir,
    cell: Cell,
    setup: Setup,
    observer: Observer,
    command: str = "",
    team: ProcessGroup | None = None,
    storage: RowStorage | None = None,
) -> None:
    """Bring one cell to its last round, from wherever it stands."""
    team = team or SingleProcess()
    with folder.locked(PATIENCE) if team.rank == 0 else nullcontext():
        if team.rank == 0:
            folder.describe(describe(cell, setup, command))
            _save_partition(folder, setup)
        done = team.broadcast(folder.rounds_done)
        if done >= cell.rounds:
            if team.rank == 0:
                observer.cell_started(folder, done)
            return

        method = setup.method(cell.method, team, storage)
        predictors = _play_rounds(folder, setup, method, observer, team)
        if cell.rate_kind == "tuning":
            # Nobody resumes a tuning run or predicts with it: its models would only fill the disk.
            if team.rank == 0:
                checkpoint.remove_all(folder.path / "checkpoint")
                shutil.rmtree(folder.path / "clients", ignore_errors=True)
        elif setup.experiment.training.keep_best == 0:
            if predictors is None:  # all rounds were played before
                predictors = method.predictors(cell.rounds)
            _save_clients(folder, setup, method, predictors, team)
        if team.rank == 0:
            folder.finish(cell.rounds)


def _save_clients(
    folder: CellDir, setup: Setup, method: Method, predictors: Mixtures, team: ProcessGroup
) -> None:
    """Write the personal models of the round that was recorded last."""
    comparisons = None
    if team.rank == 0:
        comparisons = _last_comparisons(folder)
    save_clients(folder.path / "clients", setup, method, predictors, team, comparisons)


def _last_comparisons(folder: CellDir) -> Comparisons | None:
    """What the clients of a cell are alone and together after the last round, if that is known."""
    last = read_last_record(folder.path)
    if last is None:
        return None
    return last.comparisons


def _save_partition(folder: CellDir, setup: Setup) -> None:
    file = folder.path / "partition.npz"
    if not file.exists():
        publish(file, setup.shares.save)


def _refuse_fewer(folder: Path, done: int, rounds: int) -> None:
    if done > rounds:
        raise RunError(
            f"{folder}: already has {done} rounds, {rounds} were asked for; choose another name"
        )


def _play_rounds(
    folder: CellDir, setup: Setup, method: Method, observer: Observer, team: ProcessGroup
) -> Mixtures | None:
    """All rounds that are left, each recorded, with checkpoints on the way.

    Returns what clients predict with after the last round, if that was played now.
    """
    system = setup.experiment.system
    rounds = setup.experiment.rounds
    clock = method.context.clock
    journal = Journal(folder.path)
    checkpoints = folder.path / "checkpoint"

    done = resume(checkpoints, method, journal, observer.say, team)
    _refuse_fewer(folder.path, done, rounds)
    if team.rank == 0:
        observer.cell_started(folder, done)

    best = _best_rounds(folder, setup, method, team)
    ends = _gain_no_more(best, setup, team)
    played = done
    predictors: Mixtures | None = None
    with checkpoint.Writer(checkpoints, journal.records) as writer:
        for round_index in range(done + 1, rounds + 1):
            if ends:
                break
            played = round_index
            last = round_index == rounds
            evaluate = last or round_index % system.evaluate_every == 0
            now = play_round(
                method,
                round_index,
                evaluate=evaluate,
                distribution=setup.shares.distribution,
                best=best,
            )
            predictors = now.predictors
            with clock("record"):
                record = _join_and_append(now.record, journal, team)
                ends = _gain_no_more(best, setup, team)

            state: dict[str, Tensor] | None = None
            due = checkpoint_due(system, round_index, writer, last=last or ends)
            if team.broadcast(due):
                with clock("checkpoint"):
                    writer.wait()  # so that there is never more than one copy of the state
                    state = team.assemble(method.state())

            spent = clock.take()
            if team.rank == 0:
                # Before the save: a round that is saved has its seconds.
                journal.append_spent(round_index, spent)
                if state is not None:
                    writer.save(round_index, journal.size(), state)
                observer.round_done(folder, record)
            state = None  # held by nobody but the writer
    if ends and team.rank == 0:
        observer.say(
            f"{folder.path.name}: ended after round {played}, as no client has gained for "
            f"{setup.experiment.training.patience} evaluated rounds"
        )
    return predictors


def _join_and_append(part: Record, journal: Journal, team: ProcessGroup) -> Record:
    """The record of a round, made and written by the first process from those of all."""
    parts = team.gather(part)
    if team.rank > 0:
        return part
    record = Record.joined(parts)
    journal.append(record)
    return record


def _best_rounds(
    folder: CellDir, setup: Setup, method: Method, team: ProcessGroup
) -> BestRounds | None:
    """What keeps the clients' best personal models, where the experiment asks for it."""
    if setup.experiment.training.keep_best == 0:
        return None
    last = team.broadcast(read_last_evaluated(folder.path) if team.rank == 0 else None)
    kept = KeptModels.of(last, method.context.hosted.tolist())
    return BestRounds(folder.path / "clients", setup, method, kept)


def _gain_no_more(best: BestRounds | None, setup: Setup, team: ProcessGroup) -> bool:
    """Whether the cell ends before its last round because no client gains any more."""
    if best is None:
        return False
    everywhere = team.gather(best.gains_no_more(setup.experiment.training.patience))
    return team.broadcast(all(everywhere))


def checkpoint_due(
    system: System, round_index: int, writer: checkpoint.Writer, *, last: bool
) -> bool:
    """Whether to save after this round: after the last one, and as often as asked for.

    If nothing is asked for, after the first round and when the last checkpoint is some time ago.
    """
    if last:
        return True
    if system.checkpoint_every is None:
        return round_index == 1 or writer.rested
    return round_index % system.checkpoint_every == 0


def resume(
    checkpoints: Path,
    method: Method,
    journal: Journal,
    say: Callable[[str], None],
    team: ProcessGroup,
) -> int:
    """Put the method into the state of the last checkpoint; returns the rounds played by then."""
    saved = None
    if team.rank == 0:
        saved = checkpoint.load_latest(checkpoints, say)
    path = team.broadcast(None if saved is None else saved.path)
    if team.rank > 0 and path is not None:
        saved = checkpoint.read(path)

    round_index = 0
    records_bytes = 0
    if saved is not None:
        method.restore(saved.state)
        round_index = saved.round_index
        records_bytes = saved.records_bytes
    if team.rank == 0:
        journal.rewind(records_bytes, round_index)
    return round_index


@dataclass(frozen=True)
class PlayedRound:
    """What a round has left in this process."""

    record: Record
    predictors: Mixtures | None
    """What clients predict with after it; None where it was not evaluated."""


def play_round(
    method: Method,
    round_index: int,
    *,
    evaluate: bool,
    distribution: Sequence[int] | None = None,
    best: BestRounds | None = None,
) -> PlayedRound:
    """Play one round and, where asked for, measure what it has come to on the clients' test data.

    `distribution`: the clients' true distributions, for the record only. `best` keeps the personal
    models of evaluated rounds.
    """
    context = method.context
    played = method.round(round_index)
    _check_returned(method, "round", played, Round, "at the least, return Round()")

    evaluation = None
    mixtures = None
    if evaluate:
        with context.clock("evaluate"):
            mixtures = method.predictors(round_index)
            own_models = "return self.read(round_index, self.to_own())"
            _check_returned(
                method, "predictors", mixtures, Mixtures, f"for everybody's own model, {own_models}"
            )
            evaluation = evaluate_predictors(method, mixtures)

    with context.clock("record"):
        traffic = method.exchange.traffic.take()
        record = record_round(
            round_index,
            method.names,
            context.hosted,
            context.count,
            evaluation,
            played,
            traffic,
            distribution,
            method.learner.account,
            # The best rounds are chosen client by client, so each of them must be whole.
            whole=round_index == context.rounds or best is not None,
        )
        if best is not None and mixtures is not None:
            record = best.keep(record, mixtures)
        return PlayedRound(record, mixtures)


def _check_returned(method: Method, verb: str, value: object, kind: type, remedy: str) -> None:
    """Refuse what a method of somebody's own must not return, by name."""
    if isinstance(value, kind):
        return

    returned = "nothing"
    if value is not None:
        returned = f"a {type(value).__name__}"
    raise ConfigError(
        f"methods: {type(method).__name__}.{verb} returned {returned}, "
        f"not a {kind.__name__}; {remedy}"
    )
