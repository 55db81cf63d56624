"""Real ranks: an experiment shared out over processes is the same experiment."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

pytest.importorskip("mpi4py", reason="needs federico[mpi]")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="needs mpiexec: pip install 'federico[mpi]'")
METHODS = ("federico", "local", "fedavg", "fedavg_plus")
FILE = """
methods = {methods}
rounds = {rounds}
data = {{ kind = "digits", noise = 0.5 }}
partition = {{ kind = "label-groups", clients = 6, groups = 2 }}
split = {{ test_fraction = 0.5, max_train = 30 }}
model = {{ kind = "mlp", hidden = [16] }}
training = {{ batch_size = 8 }}
federico = {{ neighbors = 2 }}
system = {{ threads = 1 }}
"""


def command(folder: Path, ranks: int, name: str, methods: tuple[str, ...] = METHODS, rounds: int = 4) -> list[str]:
    file = folder / "shared.toml"
    file.write_text(FILE.format(methods=json.dumps(methods), rounds=rounds))
    run = [sys.executable, "-m", "federico.cli.main", "run", str(file), "--name", name, "--quiet", "--directory"]
    return [*([str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []), *run, str(folder)]


def finish(folder: Path, ranks: int, name: str, **changes: object) -> Path:
    subprocess.run(command(folder, ranks, name, **changes), check=True, timeout=120)  # type: ignore[arg-type]
    return folder / name


def same(one: Path, other: Path) -> None:
    for method in sorted(path.name for path in one.glob("*-0")):
        assert (one / method / "records.jsonl").read_bytes() == (other / method / "records.jsonl").read_bytes(), method
        for models in sorted((one / method).glob("clients/*/models.safetensors")):
            mine, theirs = load_file(models), load_file(other / models.relative_to(one))
            assert mine.keys() == theirs.keys()
            assert all((mine[key] == theirs[key]).all() for key in mine), models
    assert sum(1 for _ in one.glob("*-0/clients/*")) == 6 * len(list(one.glob("*-0")))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("alone"), 1, "one")


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_method_gives_the_same_bytes_on_any_number_of_ranks(alone: Path, tmp_path: Path, ranks: int) -> None:
    same(alone, finish(tmp_path, ranks, "several"))


def test_a_killed_rank_ends_the_job_and_the_next_start_resumes(tmp_path: Path) -> None:
    wanted = finish(tmp_path, 1, "whole", methods=("federico",), rounds=60)
    job = subprocess.Popen(command(tmp_path, 2, "broken", ("federico",), 60), stdout=subprocess.PIPE)
    records = tmp_path / "broken" / "federico-0" / "records.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (records.exists() and records.read_bytes().count(b"\n") >= 5):
        time.sleep(0.01)
    os.kill(ranks_of(job.pid)[-1], signal.SIGKILL)
    said, _ = job.communicate(timeout=60)
    assert job.returncode != 0
    assert b"BAD TERMINATION" in said, "mpiexec tells which process died"
    assert not (tmp_path / "broken" / "federico-0" / "done.json").exists(), "killed before its end"
    same(wanted, finish(tmp_path, 3, "broken", methods=("federico",), rounds=60))


def test_an_error_is_said_once_and_ends_all_ranks(tmp_path: Path) -> None:
    wrong = [*command(tmp_path, 2, "wrong"), "--set", "federico.neighbors=6"]
    done = subprocess.run(wrong, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.count("error: federico.neighbors = 6") == 1


def ranks_of(mpiexec: int) -> list[int]:
    """The Python processes below mpiexec."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    below, queue = [], [mpiexec]
    while queue:
        queue += children.get(queue.pop(), [])
        below += queue[-1:]
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in set(below)}
    return sorted(
        pid for pid, line in commands.items() if b"federico.cli.main" in line and b"mpiexec" not in line.split(b"\0")[0]
    )
