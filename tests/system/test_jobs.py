"""Stop a run and all its workers stop; start it again and it ends as if nothing had happened."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from federico.experiment.grid import load_grid
from federico.experiment.observer import Callback
from federico.experiment.runner import run_grid
from federico.runs.layout import CellDir, RunDir

EXPERIMENT = """
methods = ["local", "federico"]
seeds = [0, 1]
rounds = 200
split = { samples = 200 }
partition = { kind = "label-groups", clients = 4, groups = 2 }
model = { kind = "linear" }
federico = { neighbors = 2 }
system = { threads = 1, checkpoint_every = 20 }
"""
BUSY = """
import multiprocessing, os, threading, time
from federico.experiment.workers import leave_with_parent

def work():
    threading.Thread(target=leave_with_parent, daemon=True).start()
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
"""
PATIENCE = 300.0


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.02)


def cells(folder: Path) -> list[CellDir]:
    return RunDir(folder / "runs" / "study").cells()


def done(folder: Path) -> dict[Path, int]:
    return {
        cell.path: (cell.path / "done.json").stat().st_mtime_ns
        for cell in cells(folder)
        if cell.rounds_done
    }


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    """Whether the process has ended, even if nobody has asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "study.toml").write_text(EXPERIMENT)
    run_grid(load_grid(folder / "study.toml"), folder / "runs", Callback())
    return folder


@pytest.mark.parametrize(
    ("number", "jobs"),
    [(signal.SIGKILL, 2), (signal.SIGTERM, 2), (signal.SIGTERM, 1)],
    ids=["killed with workers", "told to end with workers", "told to end alone"],
)
def test_a_run_that_is_stopped_resumes(
    undisturbed: Path, tmp_path: Path, number: signal.Signals, jobs: int
) -> None:
    (tmp_path / "study.toml").write_text(EXPERIMENT)
    command = [sys.executable, "-m", "federico", "run", "study.toml", "-q", "--jobs", str(jobs)]
    queue = subprocess.Popen(command, cwd=tmp_path)
    until(lambda: len(done(tmp_path)) > 0 or queue.poll() is not None, "a finished run")
    workers = children(queue.pid)
    queue.send_signal(number)
    assert queue.wait() == -number
    assert len(workers) >= jobs or jobs == 1
    until(lambda: all(map(gone, workers)), "workers to leave with their queue")
    before = done(tmp_path)
    assert len(before) < 4, "stopped in the middle"
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE)
    assert before.items() <= done(tmp_path).items(), "what was finished is not run again"
    for one, other in zip(cells(tmp_path), cells(undisturbed), strict=True):
        assert (one.path / "records.jsonl").read_bytes() == (
            other.path / "records.jsonl"
        ).read_bytes()


def test_a_worker_in_the_middle_of_a_long_round_leaves_too(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    queue = subprocess.Popen(
        [sys.executable, "busy.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert queue.stdout is not None
    worker = int(queue.stdout.readline())
    queue.kill()
    queue.wait()
    queue.stdout.close()
    until(lambda: gone(worker), "the worker to leave")
