"""Spoilt files of all kinds: whoever reads them gets an answer, or an error that is documented.

Where a file is checked against a hash, the hash is made to fit: a stranger can do that too.
`make fuzz` tries a million, a tenth for each of these kinds.
"""

import hashlib
import json
import random
import shutil
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.torch import load_file

from federico.errors import FedericoError, RunError
from federico.experiment.build import prepare
from federico.experiment.config import load, validate
from federico.learning.privacy import PrivacyAccount
from federico.runs.atomic import PARTIAL
from federico.runs.bundle import HEADER_FILE, MODELS_FILE, open_folder
from federico.runs.cell_result import cell_result
from federico.runs.checkpoint import load_latest
from federico.runs.client_models import INDEX_FILE, mixtures_digest, open_client
from federico.runs.layout import CellDir, RunDir
from federico.runs.results import RESULTS, read_results
from federico.site.backup import back_up, restore
from federico.site.federation_file import load_federation
from federico.site.local_federation import create_federation
from federico.site.privacy_ledger import LEDGER_FILE, open_account, recall_spent
from federico.site.site_file import Site, load_site
from federico.site.state_folder import open_state_folder
from federico.site.status import Status, read_status, write_status
from tests.support.spoiling import TIMES, record, spoil

SMALL = {
    "name": "small",
    "methods": ["federico"],
    "rounds": 3,
    "split": {"samples": 100},
    "partition": {"kind": "label-groups", "clients": 2, "groups": 1},
    "model": {"kind": "mlp", "hidden": [4]},
}
EXAMPLES = Path(__file__).parents[2] / "src" / "federico" / "examples"

# Numbers that make no sense may overflow, and NumPy says so.
pytestmark = pytest.mark.filterwarnings("ignore")


def try_all(
    what: str,
    read: Callable[[bytes], object],
    good: bytes,
    seed: int,
    spoil: Callable[[bytes, random.Random], bytes] = spoil,
) -> Counter[str]:
    """Read many spoilt versions; only documented errors may come out."""
    rng = random.Random(seed)
    began = time.monotonic()
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
    record(what, outcomes, began)
    return outcomes


def spoil_a_value(good: bytes, rng: random.Random) -> bytes:
    """Put something else in the place of one value of a JSON line, or take it away."""
    root = json.loads(good)
    holder = root
    while True:
        place = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        inner = holder[place]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
            break
        holder = inner
    if rng.random() < 0.3:
        del holder[place]
    else:
        holder[place] = rng.choice((None, -1, 0, 1e308, "x", [], {}, [1], True, 10**30))
    return json.dumps(root).encode() + b"\n"


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

    outcomes = try_all("header of a bundle", read, (bundle / HEADER_FILE).read_bytes(), 1)
    assert outcomes["RunError"] > 0


@pytest.mark.parametrize("name", ["weights", "temperatures", "offsets"])
def test_a_mixture_that_does_not_fit_its_models(bundle: Path, name: str) -> None:
    header = json.loads((bundle / HEADER_FILE).read_text())
    assert header[name] is not None
    (bundle / HEADER_FILE).write_text(json.dumps(header | {name: header[name][:-1]}))
    with pytest.raises(RunError, match=f"{name}: one for each"):
        predict(bundle)


def test_the_models_of_a_bundle(bundle: Path) -> None:
    header = json.loads((bundle / HEADER_FILE).read_text())

    def read(content: bytes) -> object:
        (bundle / MODELS_FILE).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        (bundle / HEADER_FILE).write_text(json.dumps(header | {"models_sha256": digest}))
        return predict(bundle)

    good = (bundle / MODELS_FILE).read_bytes()
    try_all("models of a bundle", read, good, 2)
    header_of_tensors = 8 + int.from_bytes(good[:8], "little")
    outcomes = try_all(
        "names and shapes of the models of a bundle",
        lambda head: read(head + good[header_of_tensors:]),
        good[:header_of_tensors],
        3,
    )
    assert outcomes["RunError"] > 0


def test_a_long_table_of_names_is_refused_before_it_is_read(bundle: Path) -> None:
    """A table of 65 MB took 18 seconds and nearly a gigabyte."""
    header = json.loads((bundle / HEADER_FILE).read_text())
    names = b",".join(b'"%d":"x"' % number for number in range(1_500_000))
    table = b'{"__metadata__":{' + names + b"}}"
    content = len(table).to_bytes(8, "little") + table
    (bundle / MODELS_FILE).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    (bundle / HEADER_FILE).write_text(json.dumps(header | {"models_sha256": digest}))
    with pytest.raises(RunError, match="its names and shapes take 19,"):
        predict(bundle)


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

    try_all("checkpoint", read, good[:header_of_tensors], 4)


@pytest.mark.parametrize("name", ["records.jsonl", "cell.json"])
def test_what_a_run_leaves(finished: RunDir, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "cell"
    shutil.copytree(finished.cell("federico", 0).path, folder)

    def read(content: bytes) -> object:
        (folder / name).write_bytes(content)
        return cell_result(CellDir(folder))

    try_all(name, read, (folder / name).read_bytes(), 5)


@pytest.mark.parametrize("how", [spoil, spoil_a_value])
def test_the_index_of_all_clients(
    finished: RunDir, tmp_path: Path, how: Callable[[bytes, random.Random], bytes]
) -> None:
    folder = tmp_path / "cell"
    shutil.copytree(finished.cell("federico", 0).path, folder)
    file = folder / "clients" / INDEX_FILE

    def read(content: bytes) -> object:
        file.write_bytes(content)
        opened = open_client(CellDir(folder), "0")
        return repr(opened), opened.probabilities(np.zeros((2, 64), dtype=np.float32))

    outcomes = try_all(f"index of all clients, {how.__name__}", read, file.read_bytes(), 11, how)
    assert outcomes["RunError"] > 0


def test_the_models_of_all_clients(finished: RunDir, tmp_path: Path) -> None:
    """Names, types and shapes of the tensors are spoilt, and their hash is made to fit."""
    folder = tmp_path / "cell"
    shutil.copytree(finished.cell("federico", 0).path, folder)
    clients = folder / "clients"
    index = json.loads((clients / INDEX_FILE).read_text())
    good = (clients / MODELS_FILE).read_bytes()
    header_of_tensors = 8 + int.from_bytes(good[:8], "little")

    def read(head: bytes) -> object:
        file = clients / MODELS_FILE
        file.write_bytes(head + good[header_of_tensors:])
        try:
            digest = mixtures_digest(load_file(file))
        except (SafetensorError, OSError):
            digest = ""
        (clients / INDEX_FILE).write_text(json.dumps(index | {"mixtures_sha256": digest}))
        return open_client(CellDir(folder), "0").probabilities(np.zeros((2, 64), dtype=np.float32))

    outcomes = try_all("models of all clients", read, good[:header_of_tensors], 12)
    assert outcomes["RunError"] > 0


@pytest.mark.parametrize("how", [spoil, spoil_a_value])
def test_a_line_of_results(
    finished: RunDir, tmp_path: Path, how: Callable[[bytes, random.Random], bytes]
) -> None:
    def read(content: bytes) -> object:
        (tmp_path / RESULTS).write_bytes(content)
        return read_results(tmp_path)

    good = (finished.path / RESULTS).read_bytes().splitlines(keepends=True)[0]
    outcomes = try_all(f"line of results, {how.__name__}", read, good, 13, how)
    assert outcomes["RunError"] > 0


def test_a_last_round_that_lacks_a_client(finished: RunDir, tmp_path: Path) -> None:
    folder = tmp_path / "cell"
    shutil.copytree(finished.cell("federico", 0).path, folder)
    *earlier, last = (folder / "records.jsonl").read_text().splitlines()
    spoilt = json.loads(last)
    spoilt["posterior"] = spoilt["posterior"][1:]
    (folder / "records.jsonl").write_text("\n".join([*earlier, json.dumps(spoilt), ""]))
    with pytest.raises(RunError, match=r"records\.jsonl: damaged: .* 3 clients"):
        cell_result(CellDir(folder))


def test_an_experiment_file(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"

    def read(content: bytes) -> object:
        file.write_bytes(content)
        return load(file)

    good = (EXAMPLES / "digits" / "digits.toml").read_bytes()
    assert try_all("experiment file", read, good, 6)["ConfigError"] > 0


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
    assert try_all("federation file", read, good, 7)["ConfigError"] > 0


def test_a_status(tmp_path: Path) -> None:
    write_status(tmp_path, Status("study", "a", 1, "training", 1.0, 2, 3))

    def read(content: bytes) -> object:
        (tmp_path / "status.json").write_bytes(content)
        return read_status(tmp_path)

    outcomes = try_all("status", read, (tmp_path / "status.json").read_bytes(), 8)
    assert outcomes["RunError"] > 0


@pytest.fixture
def state(tmp_path: Path) -> tuple[Site, PrivacyAccount]:
    """A site whose state folder holds something, and the account that its ledger belongs to."""
    privacy = {"epsilon": 8.0}
    setup = prepare(validate({**SMALL, "privacy": privacy}), 0)
    site = load_site(create_federation(tmp_path / "federation", setup)["0"])
    with open_state_folder(site) as folder:
        (folder / LEDGER_FILE).write_text('{"steps": [3, 1], "rounds_since_backup": 2}')
    account = open_account(setup, 0, site.state)
    assert account is not None
    account.open(np.array([40, 40]))
    return site, account


def test_a_privacy_ledger(state: tuple[Site, PrivacyAccount]) -> None:
    site, account = state
    file = site.state / LEDGER_FILE

    def read(content: bytes) -> object:
        file.write_bytes(content)
        return recall_spent(account, 0, 3, site.state)

    assert try_all("privacy ledger", read, file.read_bytes(), 9)["RunError"] > 0


def test_a_backup_of_a_state_folder(state: tuple[Site, PrivacyAccount], tmp_path: Path) -> None:
    site, _ = state
    backup = tmp_path / "backup.tar"
    back_up(site.state, backup)

    def read(content: bytes) -> object:
        shutil.rmtree(site.state, ignore_errors=True)
        backup.write_bytes(content)
        return restore(backup, site)

    assert try_all("backup", read, backup.read_bytes(), 10)["RunError"] > 0
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(PARTIAL)]


def test_a_backup_that_claims_more_than_it_holds(
    state: tuple[Site, PrivacyAccount], tmp_path: Path
) -> None:
    """Ten kilobytes must not become gigabytes on the disk or in memory."""
    site, _ = state
    shutil.rmtree(site.state)
    backup = tmp_path / "backup.tar"
    zeros = tmp_path / "records.jsonl"
    with zeros.open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "backup.json").write_text('{"format": 1, "files": {}}')
    names = ["records.jsonl", "backup.json"]
    pack = ["tar", "-C", str(tmp_path), "--sparse", "-cf", str(backup), *names]
    subprocess.run(pack, check=True)
    assert backup.stat().st_size < 100_000

    with pytest.raises(RunError, match=r"'records\.jsonl' is no plain file"):
        restore(backup, site)
    assert not site.state.exists()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("claimed", [1 << 40, (1 << 63) - 1, -1024])
def test_a_header_of_a_backup_that_claims_more_than_it_holds(
    state: tuple[Site, PrivacyAccount], tmp_path: Path, kind: bytes, claimed: int
) -> None:
    site, _ = state
    shutil.rmtree(site.state)
    header = tarfile.TarInfo("records.jsonl")
    header.type = kind
    header.size = claimed
    backup = tmp_path / "backup.tar"
    backup.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(10_240))

    with pytest.raises(RunError, match="not a whole backup"):
        restore(backup, site)


def test_a_backup_whose_manifest_is_no_table(
    state: tuple[Site, PrivacyAccount], tmp_path: Path
) -> None:
    site, _ = state
    shutil.rmtree(site.state)
    (tmp_path / "backup.json").write_text("[]")
    backup = tmp_path / "backup.tar"
    with tarfile.open(backup, "w") as archive:
        archive.add(tmp_path / "backup.json", "backup.json")
    with pytest.raises(RunError, match=r"backup\.json is no table"):
        restore(backup, site)
