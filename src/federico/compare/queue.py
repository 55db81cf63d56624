"""Run cells one after the other or several at a time; a queue that was killed goes on where it was.

Workers are processes of their own with a pipe to the queue. They cannot outlive it: each watches its parent and leaves
with it, in the middle of a round if need be. The cell goes on from its checkpoint when the queue is started again.
"""

import multiprocessing
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from federico import compat
from federico.compare.study import Cell
from federico.errors import FedericoError, RunError
from federico.exchange.processes import SingleProcess
from federico.experiment.runner import simulate
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record

PATIENCE = 60.0
"""Seconds that a worker of a killed queue may take to leave."""


@dataclass(frozen=True)
class News:
    """A cell has come this far."""

    cell: Cell
    round: int
    finished: bool = False
    note: str = ""
    """Something a person should know."""


Hear = Callable[[News], None]


@dataclass(frozen=True)
class Failure:
    """What went wrong in a worker."""

    error: FedericoError | None
    """An error a user can act on; anything else is a bug and comes as its traceback."""
    trace: str


def play(cells: Sequence[Cell], folder: Path, jobs: int, hear: Hear, command: str = "") -> None:
    """Bring every cell to its last round, each in its own run directory below `folder`."""
    waiting = list({cell.name: cell for cell in cells}.values())
    if jobs == 1 or len(waiting) < 2:
        for cell in waiting:
            _play_cell(cell, folder, command, hear)
        return
    size = min(jobs, len(waiting))
    crew = [_Worker(folder, command, size) for _ in range(size)]
    try:
        _share_out(waiting, crew, hear)
    finally:
        for worker in crew:
            worker.stop()


def _share_out(waiting: list[Cell], crew: Sequence["_Worker"], hear: Hear) -> None:
    """Whoever is free gets the next cell."""
    by_pipe = {worker.pipe: worker for worker in crew}
    for worker in crew:
        worker.give(waiting.pop(0))
    while busy := [worker.pipe for worker in crew if worker.cell is not None]:
        for pipe in wait(busy):
            worker = by_pipe[pipe]  # type: ignore[index]
            news = worker.news()
            hear(news)
            if news.finished:
                worker.cell = None
                if waiting:
                    worker.give(waiting.pop(0))


class _Worker:
    """A process that plays one cell at a time, seen from the queue."""

    def __init__(self, folder: Path, command: str, crew: int) -> None:
        """One of a crew of so many, who share cores and memory."""
        context = multiprocessing.get_context("spawn")  # a fork would share the threads of torch
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_work, args=(theirs, folder, command, crew), daemon=True
        )
        self.process.start()
        theirs.close()
        self.cell: Cell | None = None

    def give(self, cell: Cell) -> None:
        """Let it play this cell."""
        self.cell = cell
        self.pipe.send(cell)

    def news(self) -> News:
        """What it has to say; what went wrong there goes wrong here."""
        try:
            said: News | Failure = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise RunError(
                f"{self.cell.name if self.cell else 'a cell'}: its process was ended (exit code "
                f"{self.process.exitcode}), perhaps for lack of memory; start again to go on, with fewer --jobs"
            ) from None
        if isinstance(said, Failure):
            raise said.error or RuntimeError(said.trace)
        return said

    def stop(self) -> None:
        """End it, wherever it is."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, folder: Path, command: str, crew: int) -> None:
    """The life of a worker."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the queue, which then ends its workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        cell = pipe.recv()
        try:
            _play_cell(cell, folder, command, pipe.send, crew)
        except Exception as error:
            acted_on = error if isinstance(error, FedericoError) else None
            pipe.send(Failure(acted_on, traceback.format_exc()))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a worker calls this"
    parent.join()
    os._exit(1)


def _play_cell(cell: Cell, folder: Path, command: str, hear: Hear, crew: int = 1) -> None:
    run, threads = RunDir(folder / cell.name), compat.thread_count()
    if run.cell(cell.method, cell.seed).rounds_done < cell.experiment.rounds:
        _wait_until_free(run)
        simulate(
            cell.experiment,
            folder,
            _Reporter(cell, hear),
            command=command,
            team=SingleProcess(crew),
        )
        compat.use_threads(threads)  # what this cell has set is not for the next
        if cell.at == "tuning":
            _keep_records_only(run.cell(cell.method, cell.seed))
    hear(News(cell, cell.experiment.rounds, finished=True))


def _wait_until_free(run: RunDir) -> None:
    """A worker of a queue that was killed a moment ago may not have left yet."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with run.locked():
                return
        except RunError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _keep_records_only(cell: CellDir) -> None:
    """Nobody goes on with a tuning run or predicts with it: its models would only fill the disk."""
    for name in ("checkpoint", "clients"):
        shutil.rmtree(cell.path / name, ignore_errors=True)


class _Reporter:
    """The observer of one cell."""

    def __init__(self, cell: Cell, hear: Hear) -> None:
        self.cell, self.hear = cell, hear

    def started(self, cells: Sequence[tuple[str, int]], rounds: int) -> None:
        """Known before."""

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """At work."""
        self.hear(News(self.cell, rounds_before))

    def round_done(self, cell: CellDir, record: Record) -> None:
        """One further."""
        self.hear(News(self.cell, record.round))

    def cell_finished(self, cell: CellDir) -> None:
        """Said by the queue, once the cell is closed."""

    def say(self, message: str) -> None:
        """Passed on."""
        self.hear(News(self.cell, 0, note=message))
