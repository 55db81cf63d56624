"""The door: a method in one's own file, taken from the page that explains how to write one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import federico
from federico.errors import ConfigError, RunError
from federico.experiment.config import load
from federico.learning.client_data import ClientData
from federico.methods.method import Method
from federico.methods.registry import load_own_method
from federico.own_code import import_object

pytestmark = pytest.mark.usefixtures("trusted")

PAGE = Path(__file__).parents[2] / "docs" / "how-to-own-method.md"
Build = Callable[..., Method]
Clients = Callable[..., list[ClientData]]
FILE = """
methods = ["local", "fedprox.py:FedProx"]
rounds = {rounds}
[fedprox]
mu = 0.1
[split]
samples = 240
[partition]
kind = "label-groups"
clients = 4
groups = 2
[model]
kind = "mlp"
hidden = [8]
[system]
threads = 1
checkpoint_every = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the methods of the page and an experiment that uses the first."""
    fedprox, gossip, patient, fedavgm = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "fedprox.py").write_text(fedprox)
    (tmp_path / "gossip.py").write_text(gossip)
    (tmp_path / "patient.py").write_text(patient)
    (tmp_path / "fedavgm.py").write_text(fedavgm)
    (tmp_path / "mine.toml").write_text(FILE.format(rounds=3))
    return tmp_path


@pytest.fixture
def fedprox(folder: Path) -> type[Method]:
    return load_own_method(f"{folder / 'fedprox.py'}:FedProx").method


def models(run: Path) -> dict[str, bytes]:
    found = sorted(run.glob("fedprox-0/clients/models.safetensors"))
    assert found
    return {file.parent.name: file.read_bytes() for file in found}


def test_the_example_is_short() -> None:
    fedprox, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(fedprox.splitlines()) < 40


def test_two_rounds_by_hand(lines: Build, fedprox: type[Method]) -> None:
    """Two clients want w + b = 2 and 4; two batches in a round, so that there is a way back."""
    played = lines(fedprox, [[(1.0, 2.0)], [(1.0, 4.0)]], rate=0.25, local_epochs=2, mu=0.8)
    played.round(1)
    # First steps from 0 lead to 1 and 2, where the errors are 0: the second step is the pull
    # alone, -0.25 * 0.8 times the way made.
    expected = np.mean([1 - 0.2, 2 - 0.4])
    np.testing.assert_allclose(played.bank.rows, [[expected, expected]], rtol=1e-12)


def test_without_a_pull_it_is_fedavg(method: Build, blobs: Clients, fedprox: type[Method]) -> None:
    clients = blobs((9, 3, 4))
    mine = method(fedprox, clients, mu=0.0)
    fedavg = method("fedavg", clients)
    for round_index in (1, 2, 3):
        mine.round(round_index)
        fedavg.round(round_index)
    assert torch.equal(mine.bank.rows, fedavg.bank.rows)


def test_an_experiment_file_runs_it_and_the_files_it_leaves_run_again(folder: Path) -> None:
    run = federico.run(folder / "mine.toml", directory=folder / "runs", trust=True)
    assert len(run.records("fedprox")) == 3
    prediction = run.client("0", method="fedprox").predict(np.zeros((2, 64)))
    assert len(prediction) == 2

    left = run.path / "config.toml"
    again = federico.run(left, directory=folder / "again", trust=True)
    assert models(again.path) == models(run.path)
    federico.run(
        left, directory=folder / "runs", trust=True
    )  # the same run: nothing to do, nothing refused


def test_python_runs_the_class(folder: Path, fedprox: type[Method]) -> None:
    run = federico.run(folder / "mine.toml", methods=[fedprox], name="class", directory=folder)
    twin = federico.run(folder / "mine.toml", directory=folder / "runs", trust=True)
    assert models(run.path) == models(twin.path)


def test_a_class_that_is_in_no_file_runs_but_has_to_be_given_again(
    folder: Path, fedprox: type[Method]
) -> None:
    class Local(fedprox):  # type: ignore[valid-type, misc]
        name = "in_a_notebook"

    plain = folder / "plain.toml"
    plain.write_text(FILE.format(rounds=3).replace("[fedprox]\nmu = 0.1\n", ""))
    run = federico.run(plain, methods=[Local], directory=folder / "runs")
    assert len(run.records("in_a_notebook")) == 3
    with pytest.raises(ConfigError, match=r"methods: Local was given as a Python class"):
        load(run.path / "config.toml")


def test_it_resumes_bit_for_bit(folder: Path) -> None:
    whole = federico.run(folder / "mine.toml", directory=folder / "whole")
    federico.run(folder / "mine.toml", directory=folder / "part", rounds=1)
    resumed = federico.run(folder / "mine.toml", directory=folder / "part")
    assert models(resumed.path) == models(whole.path)


def test_a_changed_file_is_not_resumed(folder: Path) -> None:
    federico.run(folder / "mine.toml", directory=folder / "runs", rounds=1)
    file = folder / "fedprox.py"
    file.write_text(file.read_text().replace("self.opt.mu", "2 * self.opt.mu"))
    with pytest.raises(RunError, match=r"source of the method was 'fedprox\.py .*now 'fedprox\.py"):
        federico.run(folder / "mine.toml", directory=folder / "runs", trust=True)


def test_clients_without_a_server_meet_a_few_others(folder: Path) -> None:
    text = FILE.format(rounds=3).replace("fedprox.py:FedProx", "gossip.py:GossipProx")
    (folder / "gossip.toml").write_text(text.replace("[fedprox]\nmu = 0.1\n", ""))
    run = federico.run(folder / "gossip.toml", directory=folder / "runs")
    posterior = run.posterior("gossipprox")
    assert (posterior.gt(0).sum(axis=1) == 3).all(), "itself and two of the others"
    assert posterior.sum(axis=1).to_numpy() == pytest.approx(1)
    assert not posterior.equals(run.posterior("gossipprox", round_index=1)), "others in each round"
    # Nobody trusts anybody in the end: what it predicts with is its own model.
    assert run.client("0", method="gossipprox").posterior == {"0": 1.0}


def test_friends_start_from_the_mean_of_their_models(lines: Build, folder: Path) -> None:
    method = load_own_method(f"{folder / 'gossip.py'}:GossipProx").method
    played = lines(method, [[(1.0, 2.0)], [(1.0, 4.0)]], rate=1e-12)
    played.bank.hosted_rows.copy_(torch.tensor([[0.0, 1.0], [2.0, 5.0]]))
    played.round(1)
    np.testing.assert_allclose(played.bank.hosted_rows, [[1.0, 3.0], [1.0, 3.0]], atol=1e-9)


def test_the_declared_state_of_the_page_is_saved(
    folder: Path, method: Build, blobs: Clients
) -> None:
    patient: Any = import_object(f"{folder / 'patient.py'}:Patient", "methods")
    played = method(patient, blobs((6, 5, 7)))
    played.round(1)
    resumed: Any = method(patient, blobs((6, 5, 7)))
    resumed.restore(played.state())
    assert resumed.before.min() > 0
    assert resumed.before.tolist() == played.before.tolist()  # type: ignore[attr-defined]


def test_a_round_or_predictors_without_a_return_are_named_with_the_remedy(
    folder: Path, fedprox: type[Method]
) -> None:
    class NoRound(fedprox):  # type: ignore[valid-type, misc]
        name = "no_round"

        def round(self, round_index: int) -> None:
            super().round(round_index)

    class NoPredictors(fedprox):  # type: ignore[valid-type, misc]
        name = "no_predictors"

        def predictors(self, round_index: int) -> None:
            super().predictors(round_index)

    plain = folder / "plain.toml"
    plain.write_text(FILE.format(rounds=1).replace("[fedprox]\nmu = 0.1\n", ""))
    with pytest.raises(ConfigError, match=r"NoRound.round returned nothing.* return Round\(\)"):
        federico.run(plain, methods=[NoRound], directory=folder / "runs")
    with pytest.raises(ConfigError, match=r"NoPredictors.predictors .* return self\.read\("):
        federico.run(plain, methods=[NoPredictors], directory=folder / "runs")


def test_momentum_of_the_server_by_hand(lines: Build, folder: Path) -> None:
    """Two clients want w + b = 2 and 4: after a round both pull with the same force."""
    fedavgm: Any = import_object(f"{folder / 'fedavgm.py'}:FedAvgM", "methods")
    played: Any = lines(fedavgm, [[(1.0, 2.0)], [(1.0, 4.0)]], rate=0.25)
    played.round(1)
    np.testing.assert_allclose(played.bank.rows, [[1.5, 1.5]], rtol=1e-12)
    resumed: Any = lines(fedavgm, [[(1.0, 2.0)], [(1.0, 4.0)]], rate=0.25)
    resumed.restore(played.state())
    for each in (played, resumed):
        each.round(2)
        np.testing.assert_allclose(each.bank.rows, [[2.85, 2.85]], rtol=1e-12)
