"""Spoilt files of all kinds: whoever reads them gets an answer, or an error that is documented.

Where a file is checked against a hash, the hash is made to fit: a stranger can do that too.
`make fuzz` tries a million.
"""

import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from federico.errors import FedericoError
from federico.experiment.config import load
from federico.runs.bundle import HEADER_FILE, MODELS_FILE, open_folder
from federico.runs.cell_result import cell_result
from federico.runs.checkpoint import load_latest
from federico.runs.client_models import open_client
from federico.runs.layout import CellDir, RunDir
from federico.site.federation_file import load_federation
from federico.site.status import Status, read_status, write_status
from tests.support.spoiling import TIMES, spoil

EXAMPLES = Path(__file__).parents[2] / "src" / "federico" / "examples"

# Numbers that make no sense may overflow, and NumPy says so.
pytestmark = pytest.mark.filterwarnings("ignore")


def try_all(read: Callable[[bytes], object], good: bytes, seed: int) -> Counter[str]:
    """Read many spoilt versions; only documented errors may come out."""
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    read(good)
    for _ in range(max(1, TIMES // 10)):
        spoilt = spoil(good, rng)
        try:
            read(spoilt)
            outcomes["read"] += 1
        except FedericoError as error:
            if not str(error):
                raise AssertionError("an error says what is wrong") from error
            outcomes[type(error).__name__] += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {spoilt!r}") from error
    return outcomes


@pytest.fixture
def bundle(finished: RunDir, tmp_path: Path) -> Path:
    """A client's own folder."""
    folder = tmp_path / "bundle"
    open_client(finished.cell("federico", 0), "0").save(folder)
    return folder


def predict(folder: Path) -> object:
    return open_folder(folder).probabilities(np.zeros((2, 64), dtype=np.float32))


def test_the_header_of_a_bundle(bundle: Path) -> None:
    def read(content: bytes) -> object:
        (bundle / HEADER_FILE).write_bytes(content)
        return predict(bundle)

    outcomes = try_all(read, (bundle / HEADER_FILE).read_bytes(), 1)
    assert outcomes["RunError"] > 0


def test_the_models_of_a_bundle(bundle: Path) -> None:
    header = json.loads((bundle / HEADER_FILE).read_text())

    def read(content: bytes) -> object:
        (bundle / MODELS_FILE).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        (bundle / HEADER_FILE).write_text(json.dumps(header | {"models_sha256": digest}))
        return predict(bundle)

    good = (bundle / MODELS_FILE).read_bytes()
    try_all(read, good, 2)
    header_of_tensors = 8 + int.from_bytes(good[:8], "little")
    outcomes = try_all(
        lambda head: read(head + good[header_of_tensors:]), good[:header_of_tensors], 3
    )
    assert outcomes["RunError"] > 0


def test_a_checkpoint(finished: RunDir, tmp_path: Path) -> None:
    newest = max((finished.cell("federico", 0).path / "checkpoint").glob("*.safetensors"))
    good = newest.read_bytes()
    header_of_tensors = 8 + int.from_bytes(good[:8], "little")
    folder = tmp_path / "checkpoint"

    def read(head: bytes) -> object:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        content = head + good[header_of_tensors:]
        shown = newest.stem.rpartition("-")[2]
        fitting = hashlib.sha256(content).hexdigest()[: len(shown)]
        (folder / f"round-000003-{fitting}.safetensors").write_bytes(content)
        return load_latest(folder, lambda said: None)

    try_all(read, good[:header_of_tensors], 4)


@pytest.mark.parametrize("name", ["records.jsonl", "cell.json"])
def test_what_a_run_leaves(finished: RunDir, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "cell"
    shutil.copytree(finished.cell("federico", 0).path, folder)

    def read(content: bytes) -> object:
        (folder / name).write_bytes(content)
        return cell_result(CellDir(folder))

    try_all(read, (folder / name).read_bytes(), 5)


def test_an_experiment_file(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"

    def read(content: bytes) -> object:
        file.write_bytes(content)
        return load(file)

    good = (EXAMPLES / "digits" / "digits.toml").read_bytes()
    assert try_all(read, good, 6)["ConfigError"] > 0


def test_a_federation_file(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"

    def read(content: bytes) -> object:
        file.write_bytes(content)
        return load_federation(file)

    good = b"""name = "study"
members = ["a", "b", "c"]
rounds = 7
[sample]
input_shape = [4]
labels = ["no", "yes"]
[training]
batch_size = 5
[privacy]
epsilon = 8.0
"""
    assert try_all(read, good, 7)["ConfigError"] > 0


def test_a_status(tmp_path: Path) -> None:
    write_status(tmp_path, Status("study", "a", 1, "training", 1.0, 2, 3))

    def read(content: bytes) -> object:
        (tmp_path / "status.json").write_bytes(content)
        return read_status(tmp_path)

    outcomes = try_all(read, (tmp_path / "status.json").read_bytes(), 8)
    assert outcomes["RunError"] > 0
