"""Losses, weights of classes, decay, clipping, schedules and pretrained weights in whole runs."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

import federico
from federico.errors import ConfigError, RunError
from federico.experiment.build import prepare
from federico.experiment.config import load, validate
from federico.learning.schedules import Constant, Cosine, Step
from federico.learning.training_rules import TrainingRules, class_weight_table
from federico.types import Array

pytestmark = pytest.mark.usefixtures("trusted")

LOSS = """
import torch
from torch.nn import functional

def smooth(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")

def mean(outputs, targets):
    return functional.cross_entropy(outputs, targets)

number = 3
"""


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.fixture
def clients() -> dict[str, tuple[Array, Array]]:
    """Two clients, of whose samples one in ten is of the second class."""
    random = np.random.default_rng(1)
    made: dict[str, tuple[Array, Array]] = {}
    for name in ("a", "b"):
        y = np.zeros(100, dtype=np.int64)
        y[::10] = 1
        x = random.normal(size=(100, 4)).astype(np.float32)
        x[:, 0] += y
        made[name] = (x, y)
    return made


def outputs(
    clients: dict[str, tuple[Array, Array]], folder: Path, rounds: int = 3, **training: object
) -> Array:
    """What the first client predicts after training alone."""
    done = federico.run(
        clients=clients,
        model=tiny,
        directory=folder,
        rounds=rounds,
        methods=["local"],
        training=training,
    )
    return done.client("a", method="local").probabilities(clients["a"][0])


def test_schedules_depend_on_the_round_alone() -> None:
    assert [Constant(warmup=3).factor(k) for k in range(1, 6)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert [Step(kind="step", every=2, by=0.5).factor(k) for k in range(1, 6)] == [
        1.0,
        1.0,
        0.5,
        0.5,
        0.25,
    ]
    cosine = Cosine(kind="cosine", rounds=4, final=0.2)
    assert [round(cosine.factor(k), 6) for k in (1, 3, 5, 9)] == [1.0, 0.6, 0.2, 0.2]


def test_a_schedule_resumes(clients: dict[str, tuple[Array, Array]], tmp_path: Path) -> None:
    schedule = {"kind": "cosine", "rounds": 6, "warmup": 1}
    whole = outputs(clients, tmp_path / "whole", 6, schedule=schedule)
    outputs(clients, tmp_path / "resumed", 2, schedule=schedule)
    resumed = outputs(clients, tmp_path / "resumed", 6, schedule=schedule)
    np.testing.assert_array_equal(resumed, whole)
    assert not np.array_equal(whole, outputs(clients, tmp_path / "constant", 6))


def test_decay_and_clipping_are_done_for_each_model() -> None:
    parameters = torch.ones(2, 2)
    gradients = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    TrainingRules(weight_decay=0.5, clip_norm=1.0).prepare_step(parameters, gradients, rate=0.1)
    torch.testing.assert_close(parameters, torch.full((2, 2), 0.95))
    torch.testing.assert_close(gradients, torch.tensor([[0.6, 0.8], [0.3, 0.4]]))


def test_a_gradient_of_zero_stays_zero_when_clipped() -> None:
    gradients = torch.zeros(1, 2)
    TrainingRules(clip_norm=1.0).prepare_step(torch.ones(1, 2), gradients, rate=0.1)
    assert torch.equal(gradients, torch.zeros(1, 2))


def test_balanced_weights_make_the_classes_of_a_client_equal() -> None:
    table = class_weight_table("balanced", [np.array([0, 0, 0, 1]), np.array([2, 2])], 3)
    np.testing.assert_allclose(table[0], [4 / 6, 2.0, 1.0])
    np.testing.assert_allclose(table[1], [1.0, 1.0, 1.0])


def test_balanced_weights_find_the_rare_class(
    clients: dict[str, tuple[Array, Array]], tmp_path: Path
) -> None:
    plain = outputs(clients, tmp_path / "plain")
    balanced = outputs(clients, tmp_path / "balanced", class_weights="balanced")
    assert balanced[:, 1].mean() > plain[:, 1].mean() + 0.1


def test_the_own_loss_trains_as_the_built_in_one_that_it_is(
    clients: dict[str, tuple[Array, Array]], tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(LOSS)
    own = outputs(clients, tmp_path / "own", loss=f"{tmp_path}/nets.py:smooth")
    built_in = outputs(clients, tmp_path / "built in")
    np.testing.assert_allclose(own, built_in, rtol=1e-4)


def smooth(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, targets, label_smoothing=0.2, reduction="none")


def test_the_own_loss_may_be_a_function_given_in_python(
    clients: dict[str, tuple[Array, Array]], tmp_path: Path
) -> None:
    built_in = outputs(clients, tmp_path / "built in")
    given = outputs(clients, tmp_path / "given", loss=smooth)
    assert not np.allclose(given, built_in, atol=1e-4)
    module = nn.CrossEntropyLoss(label_smoothing=0.2, reduction="none")
    np.testing.assert_array_equal(outputs(clients, tmp_path / "module", loss=module), given)

    again = outputs(clients, tmp_path / "given", loss=smooth)
    np.testing.assert_array_equal(again, given)
    with pytest.raises(RunError, match=r"training\.loss was 'python:smooth_"):
        outputs(clients, tmp_path / "given", loss=lambda x, y: 2 * smooth(x, y))

    with pytest.raises(ConfigError, match="CrossEntropyLoss is a class"):
        outputs(clients, tmp_path / "class", loss=nn.CrossEntropyLoss)
    (config,) = (tmp_path / "given").glob("*/config.toml")
    written = config.read_text()
    config.write_text(re.sub(r"python:smooth_\w+", "python:gone", written))
    with pytest.raises(ConfigError, match=r"training\.loss: gone was given in Python"):
        load(config).training.rules()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("mean", "one number for each sample"), ("number", "not a function"), ("none", "imported")],
)
def test_a_loss_that_cannot_be_used_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "nets.py").write_text(LOSS)
    file = tmp_path / "experiment.toml"
    file.write_text(f'[training]\nloss = "nets.py:{name}"\n')
    with pytest.raises(ConfigError, match=complaint):
        prepare(load(file), 0)


def test_class_weights_need_as_many_numbers_as_there_are_classes() -> None:
    experiment = validate({"training": {"class_weights": [1.0, 2.0]}})
    with pytest.raises(ConfigError, match=r"class_weights: has 2 numbers.*10 classes"):
        prepare(experiment, 0)


def test_decay_of_frozen_parameters_is_refused() -> None:
    def half_frozen() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 8).requires_grad_(False), nn.Linear(8, 10))

    with pytest.raises(ConfigError, match="shared = 'trainable'"):
        prepare(validate({"training": {"weight_decay": 0.1}}), 0, factory=half_frozen)


def test_models_start_from_pretrained_weights_beside_the_file(tmp_path: Path) -> None:
    body = torch.randn(64, 64)
    save_file({"1.weight": body}, tmp_path / "weights.safetensors")
    file = tmp_path / "experiment.toml"
    file.write_text('[training]\npretrained = "weights.safetensors"\n')
    setup = prepare(load(file), 0)
    for name in ("0", "1"):
        row = setup.layout.initial(0, name)
        torch.testing.assert_close(row[: 64 * 64].view(64, 64), body)
    assert any("start at random" in warning for warning in setup.warnings)


@pytest.mark.parametrize(
    ("tensors", "complaint"),
    [
        ({"nowhere": torch.ones(1)}, "the model has no nowhere"),
        ({"1.weight": torch.ones(2)}, "1.weight has the shape"),
        (None, "there is no file"),
    ],
)
def test_pretrained_weights_that_do_not_fit_are_refused(
    tmp_path: Path, tensors: dict[str, torch.Tensor] | None, complaint: str
) -> None:
    file = tmp_path / "weights.safetensors"
    if tensors is not None:
        save_file(tensors, file)
    experiment = validate({"training": {"pretrained": str(file)}})
    with pytest.raises(ConfigError, match=complaint):
        prepare(experiment, 0)
