"""Sharing only what is trainable: a head on a frozen backbone, and LoRA on a small transformer."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn

import federico
from federico.errors import ConfigError
from federico.experiment.build import prepare
from federico.experiment.config import validate
from federico.experiment.memory_plan import plan_simulation
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.methods import METHODS
from federico.network.wire.schema import ModelSchema
from federico.runs.bundle import open_folder
from federico.types import Array

ROOT = Path(__file__).parents[2]
Clients = dict[str, tuple[Array, Array]]


class FrozenBackbone(nn.Module):
    """A frozen backbone with batch norm, and a head to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.backbone(x))
        return outputs


HEAD_BYTES = (32 * 2 + 2) * 4


BASE_BYTES = 4 * 1000 * 1000
"""What the benchmark's frozen layer takes."""


def test_the_memory_of_a_process_holds_the_base_once_for_all_clients() -> None:
    """Measured in processes of their own: a peak never falls."""
    peaks = []
    for clients_of_process in (2, 8):
        command = [sys.executable, "-m", "benchmarks.base_memory", "trainable"]
        told = subprocess.run(
            [*command, str(clients_of_process)],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        peaks.append(int(told.stdout.splitlines()[-1]))
    # Six more clients have several models each: a base for every client would take six of it.
    assert peaks[1] - peaks[0] < 6 * BASE_BYTES, [peak >> 20 for peak in peaks]


START_APART = "the part of one does not go with the rest of another; set federico.start = 'same'"
SENT_FROZEN = "some parameters of the model are frozen, and are sent"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"training": {"shared": "head"}}, START_APART),
        ({"training": {"shared": ["head"]}}, START_APART),
        ({"training": {"shared": "head"}, "federico": {"start": "same", "neighbors": 1}}, ""),
        ({"training": {"shared": "head"}, "methods": ["fedavg"]}, ""),
        ({"training": {"shared": "trainable"}}, ""),
        ({}, SENT_FROZEN),
    ],
)
def test_what_is_shared_by_mistake_is_said_once_before_the_start(
    clients: Clients,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, object],
    said: str,
) -> None:
    given: dict[str, object] = {"rounds": 1, "federico": {"neighbors": 1}, **settings}
    federico.run(clients=clients, model=FrozenBackbone, directory=tmp_path, progress=False, **given)
    lines = [line for line in capsys.readouterr().err.splitlines() if "training.shared" in line]
    if said:
        (line,) = lines
        assert said in line
    else:
        assert lines == []


@pytest.fixture
def clients() -> Clients:
    return make_clients(("north", "south", "west"), samples=60)


def make_clients(names: Sequence[str], samples: int) -> Clients:
    """Clients who all learn on which side of one plane their samples are."""
    random = np.random.default_rng(0)
    direction = random.normal(size=6)
    made: Clients = {}
    for name in names:
        x = random.normal(size=(samples, 6)).astype(np.float32)
        made[name] = (x, (x @ direction > 0).astype(np.int64))
    return made


def run(
    clients: Clients, folder: Path, model: Callable[[], nn.Module], **settings: object
) -> federico.Run:
    training = {"shared": "trainable", "batch_size": 20}
    given = {"rounds": 4, "methods": ["federico", "fedavg"], "training": training, **settings}
    return federico.run(clients=clients, model=model, directory=folder, **given)


def test_only_the_head_travels(clients: Clients, tmp_path: Path) -> None:
    records = run(clients, tmp_path, FrozenBackbone).records("fedavg")
    down = 3 * HEAD_BYTES
    up = 3 * (HEAD_BYTES + 8)  # with the coefficient of each update
    assert records[0].moved == down + up


def test_a_frozen_batch_norm_stays_as_it_was(clients: Clients, tmp_path: Path) -> None:
    layout = ModelLayout(FrozenBackbone, freeze=True)
    before = layout.base.clone()
    run(clients, tmp_path, FrozenBackbone)
    module = layout.bind(torch.zeros(layout.size), layout.initial_counters())
    layout.training_mode(module)
    module(torch.randn(8, 6))
    assert torch.equal(layout.base, before)


def test_it_learns_and_a_model_that_leaves_is_complete(clients: Clients, tmp_path: Path) -> None:
    done = run(clients, tmp_path, FrozenBackbone, rounds=20)
    x, y = clients["north"]
    personal = done.client("north")
    assert (personal.predict(x) == y).mean() > 0.75

    personal.save(tmp_path / "away")
    shutil.rmtree(done.path)
    moved = open_folder(tmp_path / "away", FrozenBackbone)
    np.testing.assert_array_equal(moved.probabilities(x), personal.probabilities(x))


def test_more_rounds_later_give_the_same_numbers(clients: Clients, tmp_path: Path) -> None:
    whole = run(clients, tmp_path / "whole", FrozenBackbone)
    run(clients, tmp_path / "resumed", FrozenBackbone, rounds=2)
    resumed = run(clients, tmp_path / "resumed", FrozenBackbone)
    x, _ = clients["south"]
    expected = whole.client("south").probabilities(x)
    np.testing.assert_array_equal(resumed.client("south").probabilities(x), expected)


def test_the_base_is_held_once_for_all_clients() -> None:
    def large() -> nn.Module:
        frozen = nn.Linear(1000, 1000)
        frozen.requires_grad_(False)
        return nn.Sequential(frozen, nn.ReLU(), nn.Linear(1000, 2))

    layout = ModelLayout(large, freeze=True)
    names = {client: str(client) for client in range(100)}
    bank = Bank.start(layout, 0, names, torch.device("cpu"))
    assert layout.base.numel() == 1000 * 1001
    assert bank.rows.shape == (100, 1000 * 2 + 2)

    # Two modules at work read the same numbers.
    first, second = (layout.bind(row, layout.initial_counters()) for row in bank.rows[:2])
    addresses = {next(module.parameters()).data_ptr() for module in (first, second)}
    assert addresses == {layout.base.data_ptr()}


def test_members_with_another_base_are_told_apart() -> None:
    ours = ModelSchema.of_layout(ModelLayout(FrozenBackbone, freeze=True, seed=0))
    same = ModelSchema.of_layout(ModelLayout(FrozenBackbone, freeze=True, seed=0))
    other = ModelSchema.of_layout(ModelLayout(FrozenBackbone, freeze=True, seed=1))
    assert ours.size * 4 == HEAD_BYTES
    assert ours.hash == same.hash
    assert ours.hash != other.hash


def test_a_model_that_is_all_frozen_is_refused() -> None:
    def frozen() -> nn.Module:
        return nn.Linear(64, 10).requires_grad_(False)

    experiment = validate({"training": {"shared": "trainable"}})
    with pytest.raises(ConfigError, match="all its parameters are frozen"):
        prepare(experiment, 0, factory=frozen)


def deep() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


BODY_BYTES = (6 * 8 + 8) * 4


@pytest.mark.parametrize("shared", ["body", ["0"], ["0.weight", "0.bias"]])
def test_the_body_alone_travels_under_federico(
    clients: Clients, tmp_path: Path, shared: str | list[str]
) -> None:
    training = {"shared": shared, "batch_size": 20}
    done = run(clients, tmp_path, deep, training=training, federico={"start": "same"}, rounds=6)
    for record in done.records("federico")[1:]:  # in the first round everybody trains alone
        pulled = sum(map(len, record.neighbors)) * BODY_BYTES
        pushed = record.moved - pulled
        assert pulled > 0
        assert pushed % (BODY_BYTES + 8) == 0

    # What a client predicts with has its own head, in memory as on the disk.
    x, _ = clients["north"]
    personal = done.client("north")
    personal.save(tmp_path / "away")
    moved = open_folder(tmp_path / "away", deep)
    np.testing.assert_array_equal(moved.probabilities(x), personal.probabilities(x))
    assert done.client("south", method="fedavg").predict(x).shape == (60,)


def test_what_is_saved_is_what_was_measured(clients: Clients, tmp_path: Path) -> None:
    """All methods; clients whose models differ in the head alone must not be mixed up."""
    training = {"shared": "body", "batch_size": 20}
    names = {name: np.full(60, place, dtype=np.int64) for place, name in enumerate(clients)}
    split = {"test_fraction": 0.3}
    told_apart = {
        name: (x, (names[name] + y) % 2) for name, (x, y) in clients.items()
    }  # south has all labels the other way round: one head cannot serve all
    done = run(
        told_apart, tmp_path, deep, training=training, split=split, rounds=15, methods=list(METHODS)
    )
    for method in METHODS:
        figures = done.records(method)[-1].figures
        assert figures is not None
        for place, (name, (x, y)) in enumerate(told_apart.items()):
            right = (done.client(name, method=method).predict(x) == y).mean()
            measured = figures["accuracy"][place]
            assert measured is not None
            assert right == pytest.approx(measured, abs=0.25), (method, name)


def test_a_part_that_the_model_does_not_have_is_named(clients: Clients, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no part of it is called 'tail'"):
        run(clients, tmp_path, deep, training={"shared": ["tail"]})
    with pytest.raises(ConfigError, match="nothing is left to share"):
        run(clients, tmp_path, lambda: nn.Linear(6, 2), training={"shared": "body"})


def test_memory_is_planned_for_the_part(clients: Clients) -> None:
    def large() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 1000), nn.ReLU(), nn.Linear(1000, 10))

    whole, head = (
        plan_simulation(prepare(validate({"training": {"shared": shared}}), 0, factory=large)).parts
        for shared in ("all", "head")
    )
    model, part = 64 * 1000 + 1000 + 10 * 1000 + 10, 10 * 1000 + 10
    assert head["models"] == whole["models"] * part // model
    assert head["updates"] == whole["updates"] * part // model
    assert whole["personal parts"] == 0
    assert head["personal parts"] > 0


class TinyTransformer(nn.Module):
    """Six numbers as a sequence of tokens, one layer of attention, two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 16)
        self.position = nn.Parameter(torch.randn(6, 16))
        self.query = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)
        self.classifier = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.unsqueeze(-1)) * self.position
        query = self.query(tokens)
        weights = torch.softmax(query @ tokens.transpose(1, 2) / 4, dim=-1)
        outputs: Tensor = self.classifier((weights @ self.value(tokens)).mean(1))
        return outputs


def lora() -> nn.Module:
    peft = pytest.importorskip("peft")
    options = peft.LoraConfig(
        r=2, target_modules=["query", "value"], modules_to_save=["classifier"], lora_dropout=0.1
    )
    adapted: nn.Module = peft.get_peft_model(TinyTransformer(), options)
    return adapted


def test_only_lora_travels(clients: Clients, tmp_path: Path) -> None:
    trainable = sum(p.numel() for p in lora().parameters() if p.requires_grad)
    records = run(clients, tmp_path, lora, rounds=1).records("fedavg")
    assert records[0].moved == 3 * (2 * 4 * trainable + 8)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> tuple[federico.Run, Clients]:
    """A run with LoRA that is long enough to learn something."""
    clients = make_clients(("north", "south", "west"), samples=150)
    training = {
        "shared": "trainable",
        "batch_size": 20,
        "optimizer": {"kind": "adam", "learning_rate": 0.02},
    }
    done = run(clients, tmp_path_factory.mktemp("lora"), lora, rounds=12, training=training)
    return done, clients


def test_lora_learns(adapted: tuple[federico.Run, Clients]) -> None:
    done, _ = adapted
    for method in ("federico", "fedavg"):
        reached = []
        for record in done.records(method):
            assert record.figures is not None
            reached.append(np.mean([figure or 0.0 for figure in record.figures["accuracy"]]))
        assert reached[-1] > reached[0] + 0.05, (method, reached)
        assert reached[-1] > 0.85, (method, reached)


def test_a_model_with_lora_leaves_whole(
    adapted: tuple[federico.Run, Clients], tmp_path: Path
) -> None:
    done, clients = adapted
    x, y = clients["north"]
    personal = done.client("north")
    expected = personal.probabilities(x)
    assert (personal.predict(x) == y).mean() > 0.8

    module = personal.module()
    with torch.no_grad():
        np.testing.assert_allclose(module(torch.from_numpy(x)), expected, atol=1e-5)
    personal.export(tmp_path / "north.pt2")
    program = torch.export.load(tmp_path / "north.pt2").module()
    np.testing.assert_allclose(program(torch.from_numpy(x)).detach(), expected, atol=1e-5)
    personal.export(tmp_path / "north.safetensors")
    tensors = load_file(tmp_path / "north.safetensors")
    assert any("lora_A" in name for name in tensors)


@pytest.mark.slow
def test_a_model_with_lora_runs_in_onnxruntime(
    adapted: tuple[federico.Run, Clients], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    done, clients = adapted
    x, _ = clients["north"]
    personal = done.client("north")
    expected = personal.probabilities(x)
    personal.export(tmp_path / "north.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "north.onnx"))
    (name,) = [each.name for each in session.get_inputs()]
    np.testing.assert_allclose(session.run(None, {name: x})[0], expected, atol=1e-5)
