"""Kill the process at any moment, resume: it ends like a run nobody disturbed, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from federico.runs.checkpoint import load_latest
from federico.runs.layout import RunDir

Outcome = dict[str, bytes]
OutcomeOf = Callable[[Path], Outcome]
CELLS = ("federico-0", "local-0", "fedavg_plus-0", "clustered-0", "fedem-0", "fedfomo-0")
ROUNDS = 6


class Server:
    """Children that run the experiment and end as asked for."""

    def __init__(self, process: "subprocess.Popen[str]", file: Path) -> None:
        self._process, self._file = process, file

    def run(self, root: Path, **ending: Any) -> dict[str, Any]:
        """How one child ended; without an ending it finishes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({"file": str(self._file), "root": str(root), **ending}) + "\n"
        )
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@pytest.fixture(scope="module")
def server(small: Path) -> Iterator[Server]:
    script = Path(__file__).with_name("fork_server.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Server(process, small)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def undisturbed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run that nobody stopped, and what it took."""
    root = tmp_path_factory.mktemp("undisturbed")
    took = server.run(root)
    assert took["code"] == 0
    again = server.run(tmp_path_factory.mktemp("again"))
    return took | {"root": root, "seconds": again["seconds"]}


@pytest.fixture(scope="module")
def expected(undisturbed: dict[str, Any], outcome_of: OutcomeOf) -> Outcome:
    found = outcome_of(undisturbed["root"] / "small")
    assert sum(name.endswith("records.jsonl") for name in found) == len(CELLS)
    assert sum("checkpoint/round-000006/bank.rows" in name for name in found) == len(CELLS)
    assert sum(name.endswith("models.safetensors") for name in found) == len(CELLS)
    return found


def check(run: Path, expected: Outcome, outcome_of: OutcomeOf, damaged: int = 0) -> None:
    found = outcome_of(run)
    different = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    assert different == []
    assert not list(run.rglob("*.partial")), "nothing half-written stays behind"
    assert len(list(run.rglob("*.damaged"))) == damaged, "a kill never damages what was published"
    for cell in RunDir(run).cells():
        rounds = [
            json.loads(line)["round"]
            for line in (cell.path / "timings.jsonl").read_text().splitlines()
        ]
        assert rounds == list(range(1, ROUNDS + 1))


@pytest.mark.parametrize("part", range(12))
def test_killed_right_before_a_change_on_the_disk(
    server: Server,
    undisturbed: dict[str, Any],
    expected: Outcome,
    outcome_of: OutcomeOf,
    tmp_path: Path,
    part: int,
) -> None:
    step = 2 + part * (undisturbed["steps"] - 2) // 11 + part % 3 * (part < 11)
    assert server.run(tmp_path, step=step)["code"] == -signal.SIGKILL
    assert server.run(tmp_path)["code"] == 0
    check(tmp_path / "small", expected, outcome_of)


@pytest.mark.parametrize(
    "torn", [("checkpoint", 1), ("checkpoint", 9), ("records", 3), ("timings", 8)], ids=str
)
def test_killed_in_the_middle_of_a_write(
    server: Server, expected: Outcome, outcome_of: OutcomeOf, tmp_path: Path, torn: tuple[str, int]
) -> None:
    assert server.run(tmp_path, torn=torn)["code"] == -signal.SIGKILL
    assert server.run(tmp_path)["code"] == 0
    check(tmp_path / "small", expected, outcome_of)


def test_killed_again_and_again_at_random_moments(
    server: Server,
    undisturbed: dict[str, Any],
    expected: Outcome,
    outcome_of: OutcomeOf,
    tmp_path: Path,
) -> None:
    chance, kills, seconds = random.Random(20), 0, undisturbed["seconds"]
    while kills < 8:
        folder = tmp_path / f"after-{kills}"  # a new run whenever the last got through
        for attempt in range(6):
            end = server.run(folder, seconds=chance.uniform(0.05, 0.9) * seconds)
            if end["code"] == 0:
                # A whole run in less time: the machine was busier when it was first measured.
                seconds = min(seconds, end["seconds"]) if attempt == 0 else seconds
                break
            assert end["code"] == -signal.SIGKILL
            kills += 1
        assert server.run(folder)["code"] == 0
        check(folder / "small", expected, outcome_of)


def start(file: Path, root: Path) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "federico",
        "run",
        str(file),
        "--directory",
        str(root),
        "--quiet",
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill_once_there_are(records: Path, lines: int, process: "subprocess.Popen[bytes]") -> None:
    with process:
        while process.poll() is None:
            if records.exists() and records.read_bytes().count(b"\n") >= lines:
                process.kill()
                break
            time.sleep(0.001)
    assert process.returncode == -signal.SIGKILL


def test_killed_command_goes_on_when_given_again(
    small: Path, expected: Outcome, outcome_of: OutcomeOf, tmp_path: Path
) -> None:
    run = tmp_path / "small"
    kill_once_there_are(run / "local-0" / "records.jsonl", 2, start(small, tmp_path))
    kill_once_there_are(run / "federico-0" / "records.jsonl", 4, start(small, tmp_path))
    with start(small, tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0
    check(run, expected, outcome_of)


def test_file_size_limit_is_a_clear_error_and_nothing_is_lost(
    server: Server, expected: Outcome, outcome_of: OutcomeOf, tmp_path: Path
) -> None:
    end = server.run(tmp_path, limit=12_000)  # a checkpoint takes more
    assert end["code"] == 4
    assert "no space left on the disk. Nothing is lost" in end["error"]
    assert server.run(tmp_path)["code"] == 0
    check(tmp_path / "small", expected, outcome_of)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of about a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root may mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1200k", "none", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(
        ["umount", "--lazy", str(place)], check=True
    )  # a mapped checkpoint may still be held


def fill(disk: Path, leave: int) -> Path:
    """A file that leaves so much room and no more."""
    room = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(b"\0" * (room.f_bavail * room.f_bsize - leave))
    return filler


@pytest.mark.parametrize("pages", [0, 1, 4, 12])
def test_full_disk_is_a_clear_error_and_the_run_goes_on_later(
    federico: Callable[..., Any],
    small: Path,
    tiny_disk: Path,
    expected: Outcome,
    outcome_of: OutcomeOf,
    pages: int,
) -> None:
    assert federico("run", small, "--directory", tiny_disk, "--set", "rounds=2", "-q").code == 0
    filler = fill(tiny_disk, pages * 4096)
    full = federico("run", small, "--directory", tiny_disk, "-q")
    assert full.code == 4
    assert full.err.startswith("error: ")
    assert "no space left on the disk. Nothing is lost" in full.err
    assert len(full.err.splitlines()) == 1
    for name in CELLS:
        saved = load_latest(tiny_disk / "small" / name / "checkpoint", pytest.fail)
        assert saved is not None
        assert saved.round_index >= 2
    filler.unlink()
    assert federico("run", small, "--directory", tiny_disk, "-q").code == 0
    check(tiny_disk / "small", expected, outcome_of)


def test_flipped_bit_in_the_newest_checkpoint_is_said_and_costs_one_round(
    federico: Callable[..., Any],
    small: Path,
    expected: Outcome,
    outcome_of: OutcomeOf,
    tmp_path: Path,
) -> None:
    federico("run", small, "--set", "rounds=3", "-q")
    newest = max((tmp_path / "runs" / "small" / "federico-0" / "checkpoint").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 16
    newest.write_bytes(content)
    answer = federico("run", small)
    assert answer.code == 0
    flat = " ".join(answer.err.split())
    assert f"note: {newest.name} is damaged" in flat
    assert "put aside, the one before it is used" in flat
    check(tmp_path / "runs" / "small", expected, outcome_of, damaged=1)
