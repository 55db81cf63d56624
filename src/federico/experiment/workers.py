"""Runs several cells at a time, each in a process of its own.

Workers cannot outlive the process that started them: each watches its parent and leaves with it, in
the middle of a round if need be. Their cells resume from their checkpoints the next time.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NoReturn, TypeAlias

from federico import compat
from federico.errors import FedericoError, RunError
from federico.exchange.processes import ProcessGroup, SingleProcess
from federico.experiment.grid import Cell
from federico.experiment.observer import Observer
from federico.experiment.problems import ProblemCache
from federico.own_code import Trust, trust_now, trusting
from federico.runs.layout import CellDir
from federico.runs.records import Record


@dataclass(frozen=True)
class CellStarted:
    """A worker has begun or resumed a cell."""

    folder: CellDir
    rounds_before: int


@dataclass(frozen=True)
class RoundDone:
    """A worker has played a round."""

    folder: CellDir
    record: Record


@dataclass(frozen=True)
class Remark:
    """A worker has something to say to a person."""

    text: str


@dataclass(frozen=True)
class CellDone:
    """A worker has brought its cell to the last round."""


@dataclass(frozen=True)
class CellFailed:
    """A worker could not go on."""

    error: FedericoError | None
    """An error a user can act on; anything else is a bug and comes as its traceback."""
    trace: str


News: TypeAlias = CellStarted | RoundDone | Remark | CellDone | CellFailed
Work: TypeAlias = tuple[Cell, CellDir]
RunOne: TypeAlias = Callable[[Cell, CellDir, ProblemCache, Observer, str, ProcessGroup, int], None]
"""Runs one cell in the process that calls it, as `federico.experiment.runner.run_one` does."""


def run_in_workers(
    work: Sequence[Work], size: int, run_one: RunOne, observer: Observer, command: str
) -> Iterator[Work]:
    """Run all cells in this many processes; each is given back when it has all its rounds."""
    workers = [_Worker(run_one, command, size) for _ in range(size)]
    try:
        yield from _distribute(list(work), workers, observer)
    finally:
        for worker in workers:
            worker.stop()


def _distribute(
    waiting: list[Work], workers: Sequence["_Worker"], observer: Observer
) -> Iterator[Work]:
    """A worker that is free gets the next cell."""
    by_pipe = {worker.pipe: worker for worker in workers}
    for worker in workers:
        worker.give(waiting.pop(0))
    while busy := [worker.pipe for worker in workers if worker.work is not None]:
        for pipe in wait(busy):
            assert isinstance(pipe, Connection)
            worker = by_pipe[pipe]
            done = worker.hear(observer)
            if done is None:
                continue
            if waiting:
                worker.give(waiting.pop(0))
            yield done


class _Worker:
    """A process that runs one cell at a time, seen from the process that started it."""

    def __init__(self, run_one: RunOne, command: str, size: int) -> None:
        """`size`: how many workers share the cores and the memory."""
        context = multiprocessing.get_context("spawn")  # a fork would share the threads of torch
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_work, args=(theirs, run_one, command, size, trust_now()), daemon=True
        )
        self.process.start()
        theirs.close()
        self.work: Work | None = None

    def give(self, work: Work) -> None:
        """Let the worker run this cell."""
        self.work = work
        self.pipe.send(work)

    def hear(self, observer: Observer) -> Work | None:
        """Pass on what the worker says; returns its cell when that is done.

        What goes wrong in the worker goes wrong here.
        """
        assert self.work is not None, "only a busy worker is listened to"
        try:
            news: News = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise RunError(
                f"{self.work[1].path}: its process was ended (exit code {self.process.exitcode}), "
                "perhaps for lack of memory; start again to resume, with fewer --jobs"
            ) from None

        match news:
            case CellStarted(folder, rounds_before):
                observer.cell_started(folder, rounds_before)
            case RoundDone(folder, record):
                observer.round_done(folder, record)
            case Remark(text):
                observer.say(text)
            case CellFailed(error, trace):
                raise error or RuntimeError(trace)
            case CellDone():
                done = self.work
                self.work = None
                return done
        return None

    def stop(self) -> None:
        """End the worker, wherever it is."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, run_one: RunOne, command: str, size: int, trust: Trust) -> NoReturn:
    """What a worker process does: wait for a cell, run it, say so."""
    # Ctrl-C is for the process that started this one, and which then ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=leave_with_parent, daemon=True).start()
    problems = ProblemCache()
    team = SingleProcess(size)
    observer = _Reporter(pipe)
    threads = compat.thread_count()
    with trusting(trust):
        while True:
            cell, folder = pipe.recv()
            try:
                run_one(cell, folder, problems, observer, command, team, threads)
                pipe.send(CellDone())
            except Exception as error:
                user_error = error if isinstance(error, FedericoError) else None
                pipe.send(CellFailed(user_error, traceback.format_exc()))


def leave_with_parent() -> None:
    """End this process as soon as the one that started it has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a worker calls this"
    parent.join()
    os._exit(1)


class _Reporter(Observer):
    """The observer of one cell: tells the process that started this one what it cannot know."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Pass it on."""
        self._pipe.send(CellStarted(CellDir(cell.path), rounds_before))

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Pass it on."""
        self._pipe.send(RoundDone(CellDir(cell.path), record))

    def say(self, message: str) -> None:
        """Pass it on."""
        self._pipe.send(Remark(message))
