"""A small experiment file, and what a run must come to."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

# Test files of this folder share `peers`, which starts real ones.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("peers")

SMALL = """
methods = ["federico", "local", "fedavg_plus", "clustered", "fedem", "fedfomo"]
rounds = 6

[data]
kind = "digits"
noise = 0.2

[split]
samples = 200

[partition]
kind = "label-groups"
clients = 4
groups = 2

[model]
kind = "mlp"
hidden = [6]

[federico]
neighbors = 2

[clustered]
eps1 = 9.0
eps2 = 0.0
min_round = 2

[fedem]
components = 2

[system]
threads = 1
checkpoint_every = 1
"""


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment file of six methods that runs for less than a second."""
    path = tmp_path_factory.mktemp("small") / "small.toml"
    path.write_text(SMALL)
    return path


def outcome(run: Path) -> dict[str, bytes]:
    """All that must not depend on how often a run was stopped: records, partition, all tensors."""
    kept = [
        path
        for name in ("records.jsonl", "partition.npz", "done.json")
        for path in run.glob(f"*/{name}")
    ]
    kept += [path for path in run.glob("*/clients/**/*") if path.is_file()]
    found = {str(path.relative_to(run)): path.read_bytes() for path in kept}
    for path in run.glob("*/checkpoint/*.safetensors"):
        place = path.relative_to(run).parent / path.name[:12]
        found |= {
            f"{place}/{name}": tensor.numpy().tobytes() for name, tensor in load_file(path).items()
        }
    return found


@pytest.fixture(scope="session")
def outcome_of() -> Callable[[Path], dict[str, bytes]]:
    return outcome
