"""Real ranks: an experiment shared out over processes is the same experiment."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import mpi4py  # noqa: F401 (part of the development set: without it nothing here would be tested)
import numpy as np
import pytest
from safetensors.numpy import load_file

from federico.methods import METHODS
from federico.runs.records import read_records

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(
    MPIEXEC is None, reason="needs mpiexec: pip install 'federico[mpi]'"
)
FILE = """
methods = {methods}
rounds = {rounds}
data = {{ kind = "digits", noise = 0.5 }}
partition = {{ kind = "label-groups", clients = 6, groups = 2 }}
split = {{ test_fraction = 0.5, max_train = 30 }}
model = {{ kind = "mlp", hidden = [16] }}
training = {{ batch_size = 8 }}
federico = {{ neighbors = 2 }}
clustered = {{ eps1 = 9.0, eps2 = 0.0, min_round = 2 }}
fedfomo = {{ neighbors = 2 }}
system = {{ threads = 1, checkpoint_every = 1 }}
"""
FRAGILE = """
import os
from torch import nn

class Fragile(nn.Linear):
    def __init__(self):
        super().__init__(64, 10)

    def forward(self, x):
        if self.training and len(x) > 2 and os.environ.get("PMI_RANK") == "1":
            raise KeyError("only on the second rank")
        return super().forward(x)
"""


def command(
    folder: Path,
    ranks: int,
    name: str,
    methods: tuple[str, ...] = tuple(METHODS),
    rounds: int = 4,
    more: str = "",
) -> list[str]:
    file = folder / "shared.toml"
    file.write_text(FILE.format(methods=json.dumps(methods), rounds=rounds) + more)
    run = [
        sys.executable,
        "-m",
        "federico",
        "run",
        str(file),
        "--name",
        name,
        "--quiet",
        "--trust",
        "--directory",
    ]
    return [*([str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []), *run, str(folder)]


def finish(folder: Path, ranks: int, name: str, **changes: object) -> Path:
    subprocess.run(command(folder, ranks, name, **changes), check=True, timeout=120)  # type: ignore[arg-type]
    return folder / name


def same(one: Path, other: Path) -> None:
    """The same visits to the letter, the same numbers up to rounding."""
    for cell in sorted(one.glob("*-0")):
        mine, theirs = read_records(cell), read_records(other / cell.name)
        assert [record.neighbors for record in mine] == [record.neighbors for record in theirs]
        assert [(record.sent, record.received, record.moved) for record in mine] == [
            (record.sent, record.received, record.moved) for record in theirs
        ]
        for a, b in zip(mine, theirs, strict=True):
            assert (a.figures or {}).keys() == (b.figures or {}).keys()
            for name, values in (a.figures or {}).items():
                assert values == pytest.approx((b.figures or {})[name], rel=0, abs=1e-6), name
            for row, twin in zip(a.posterior, b.posterior, strict=True):
                assert row == pytest.approx(twin, abs=1e-6)
            assert a.together_share == pytest.approx(b.together_share, abs=1e-3)
            assert a.together_chance == pytest.approx(b.together_chance, abs=1e-3)
        for models in sorted(cell.glob("clients/**/models.safetensors")):
            ours, others = load_file(models), load_file(other / models.relative_to(one))
            assert ours.keys() == others.keys()
            for key in ours:
                np.testing.assert_allclose(ours[key], others[key], rtol=0, atol=1e-6)
    cells = {
        models.relative_to(one).parts[0] for models in one.glob("*-0/clients/**/*.safetensors")
    }
    assert cells == {cell.name for cell in one.glob("*-0")}


HEAD_ONLY = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        frozen = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16)).requires_grad_(False)
        super().__init__(frozen, nn.ReLU(), nn.Linear(16, 10))
"""
HEAD_ONLY_FILE = """
methods = ["federico"]
rounds = 8
data = { kind = "digits", noise = 0.5 }
partition = { kind = "label-groups", clients = 4, groups = 2 }
split = { test_fraction = 0.5, max_train = 30 }
system = { threads = 1 }
[model]
kind = "import"
path = "FOLDER/net.py:Net"
[training]
batch_size = 8
shared = "trainable"
keep_best = 0.2
patience = 2
class_weights = "balanced"
schedule = { kind = "cosine", rounds = 3 }
"""


def test_two_ranks_share_a_head_and_choose_the_same_round(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(HEAD_ONLY)
    file = tmp_path / "head.toml"
    file.write_text(HEAD_ONLY_FILE.replace("FOLDER", str(tmp_path)))
    run = [sys.executable, "-m", "federico", "run", str(file), "--quiet", "--trust"]
    for ranks, name in ((1, "one"), (2, "two")):
        launcher = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
        full = [*launcher, *run, "--directory", str(tmp_path), "--name", name]
        subprocess.run(full, check=True, timeout=120)
    same(tmp_path / "one", tmp_path / "two")
    kept = [read_records(tmp_path / name / "federico-0")[-1].kept_rounds for name in ("one", "two")]
    assert kept[0] == kept[1]
    assert kept[0] is not None
    assert len(kept[0]) == 4


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = finish(tmp_path_factory.mktemp("alone"), 1, "one")
    assert {cell.name for cell in run.glob("*-0")} == {f"{method}-0" for method in METHODS}
    rows = read_records(run / "clustered-0")[-1].posterior
    assert max(len(row) for row in rows) < 6, (
        "the clusters have split, so there is something to get wrong"
    )
    return run


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_method_gives_the_same_on_any_number_of_ranks(
    alone: Path, tmp_path: Path, ranks: int
) -> None:
    same(alone, finish(tmp_path, ranks, "several"))


def test_hostile_members_send_the_same_on_two_ranks(tmp_path: Path) -> None:
    more = '[attack]\nkind = "noise"\ncount = 2\n'
    alone = finish(tmp_path, 1, "alone", methods=("federico",), more=more)
    same(alone, finish(tmp_path, 2, "two", methods=("federico",), more=more))


@pytest.mark.parametrize("name", ["FedProx", "GossipProx"])
def test_a_method_of_ones_own_gives_the_same_on_two_ranks(tmp_path: Path, name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to-own-method.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    (code,) = [each for each in examples if f"class {name}(" in each]
    (tmp_path / "own.py").write_text(code)
    own = (f"own.py:{name}",)
    same(
        finish(tmp_path, 1, "one", methods=own),
        finish(tmp_path, 2, "two", methods=own),
    )


def test_a_killed_rank_ends_the_job_and_the_next_start_resumes(tmp_path: Path) -> None:
    wanted = finish(tmp_path, 1, "whole", methods=("federico",), rounds=150)
    job = subprocess.Popen(
        command(tmp_path, 2, "broken", ("federico",), 150), stdout=subprocess.PIPE
    )
    records = tmp_path / "broken" / "federico-0" / "records.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (
        records.exists() and records.read_bytes().count(b"\n") >= 5
    ):
        time.sleep(0.01)
    os.kill(ranks_of(job.pid)[-1], signal.SIGKILL)
    said, _ = job.communicate(timeout=60)
    assert job.returncode != 0
    assert b"BAD TERMINATION" in said, "mpiexec tells which process died"
    assert not (tmp_path / "broken" / "federico-0" / "done.json").exists(), "killed before its end"
    same(wanted, finish(tmp_path, 3, "broken", methods=("federico",), rounds=150))


def test_an_error_is_said_once_and_ends_all_ranks(tmp_path: Path) -> None:
    wrong = [*command(tmp_path, 2, "wrong"), "--set", "federico.neighbors=6"]
    done = subprocess.run(wrong, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert done.stderr.count("error: federico.neighbors = 6") == 1


def test_more_ranks_than_clients_are_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, 7, "many"), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2
    assert "error: mpiexec -n 7: there are only 6 clients" in done.stderr


def test_a_bug_on_one_rank_ends_all_of_them_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    model = f"model={{kind='import', path='{tmp_path / 'fragile.py'}:Fragile'}}"
    broken = [*command(tmp_path, 2, "bug", ("local",)), "--set", model]
    done = subprocess.run(broken, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "KeyError: 'only on the second rank'" in done.stderr


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
    commands = {
        pid: file.read_bytes()
        for pid in set(below)
        if (file := Path(f"/proc/{pid}/cmdline")).exists()
    }
    return sorted(
        pid
        for pid, line in commands.items()
        if b"-m\0federico\0" in line and b"mpiexec" not in line.split(b"\0")[0]
    )
