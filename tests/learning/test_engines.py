from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federico import compat
from federico.learning import engines as engines_module
from federico.learning.engines import Engine, Looped, Stacked, Vmapped, chain, vmappable
from federico.learning.layout import ModelLayout
from federico.learning.models import perceptron
from federico.learning.objectives import objective_for
from federico.types import Task

ROWS, SAMPLES = 3, 6
Factory = Callable[[], nn.Module]


def shared_relu() -> nn.Module:
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(4, 5), relu, nn.Linear(5, 5), relu, nn.Linear(5, 3))


CHAINS: dict[str, Factory] = {
    "linear": lambda: perceptron((4, 3)),
    "mlp": lambda: perceptron((4, 6, 5, 3)),
    "no bias": lambda: nn.Sequential(
        nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False)
    ),
    "two linear in a row": lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)),
    "ends with relu": lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
    "one relu used twice": shared_relu,
}


def frozen() -> nn.Module:
    model = perceptron((4, 5, 3))
    model.get_parameter("1.weight").requires_grad_(False)
    return model


def shared_layer() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def tied_weights() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


class Own(nn.Sequential):
    """Looks like a chain, computes something else."""

    def forward(self, x: Tensor) -> Tensor:
        return -super().forward(x)


OTHERS: dict[str, Factory] = {
    "frozen parameter": frozen,
    "layer used twice": shared_layer,
    "tied weights": tied_weights,
    "subclass": lambda: Own(nn.Linear(4, 3)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 3))),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout()),
    "relu first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 3)),
    "other activation": lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()),
    "flatten in the middle": lambda: nn.Sequential(nn.Linear(4, 3), nn.Flatten()),
    "no sequence": lambda: nn.Linear(4, 3),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_recognised(name: str) -> None:
    assert chain(ModelLayout(CHAINS[name])) is not None


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_be_stacked_is_left_to_the_loop(name: str) -> None:
    assert chain(ModelLayout(OTHERS[name])) is None


def test_a_chain_in_two_precisions_is_left_to_the_loop() -> None:
    assert chain(ModelLayout(CHAINS["mlp"], mixed=True)) is None


class Workspace:
    """Three random models on random samples, the last of which are padding for the later rows."""

    def __init__(self, factory: Factory, task: Task) -> None:
        torch.manual_seed(0)
        self.layout = ModelLayout(factory, torch.float64)
        self.objective = objective_for(task)
        self.rows = torch.stack([self.layout.initial(0, str(k)) for k in range(ROWS)])
        self.x = torch.randn(ROWS, SAMPLES, 4, dtype=torch.float64)
        outputs = self.plain(0)(self.x[0]).shape[-1]
        self.y = torch.randn(ROWS, SAMPLES, outputs, dtype=torch.float64)
        if task == "classification":
            self.y = self.y.argmax(-1)
        self.weights = torch.rand(ROWS, SAMPLES, dtype=torch.float64)
        self.weights[1:, 4:] = 0

    def plain(self, row: int) -> nn.Module:
        """The module itself, with the row's numbers copied in."""
        module = self.layout.bind(self.rows[row].clone(), self.layout.initial_counters())
        return module.eval()

    def gradient(self, row: int) -> Tensor:
        """By autograd alone."""
        module = self.plain(row)
        loss = (self.objective(module(self.x[row]), self.y[row]) * self.weights[row]).sum()
        parts = torch.autograd.grad(loss, list(module.parameters()))
        return torch.cat([part.flatten() for part in parts])


def stacked(workspace: Workspace) -> tuple[Tensor, Tensor]:
    layers = chain(workspace.layout)
    assert layers is not None
    work, grad = workspace.rows.clone(), torch.full_like(workspace.rows, torch.nan)
    engine: Engine = Stacked(layers, workspace.objective, work, grad)
    outputs = engine.outputs(workspace.x)
    engine.gradient(workspace.x, workspace.y, workspace.weights)
    assert torch.equal(work, workspace.rows), "nothing but the gradient is written"
    return outputs, grad


def looped(workspace: Workspace) -> tuple[Tensor, Tensor]:
    work, grad = torch.zeros_like(workspace.rows[:1]), torch.zeros_like(workspace.rows[:1])
    engine: Engine = Looped(workspace.layout, workspace.objective, work, grad)
    outputs, gradients = [], []
    for row in range(ROWS):
        work.copy_(workspace.rows[row : row + 1])
        one = slice(row, row + 1)
        outputs.append(engine.outputs(workspace.x[one]))
        engine.gradient(workspace.x[one], workspace.y[one], workspace.weights[one])
        gradients.append(grad.clone())
    return torch.cat(outputs), torch.cat(gradients)


def vmapped(workspace: Workspace) -> tuple[Tensor, Tensor]:
    work, grad = workspace.rows.clone(), torch.full_like(workspace.rows, torch.nan)
    engine: Engine = Vmapped(workspace.layout, workspace.objective, work, grad)
    engine.gradient(workspace.x, workspace.y, workspace.weights)
    assert torch.equal(work, workspace.rows), "nothing but the gradient is written"
    return engine.outputs(workspace.x), grad


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("run", [stacked, looped, vmapped])
def test_every_engine_computes_what_autograd_computes(
    run: Callable[[Workspace], tuple[Tensor, Tensor]], name: str, task: Task
) -> None:
    workspace = Workspace(CHAINS[name], task)
    outputs, gradients = run(workspace)
    expected = torch.stack([workspace.plain(row)(workspace.x[row]).detach() for row in range(ROWS)])
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(
        gradients, torch.stack([workspace.gradient(row) for row in range(ROWS)]), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("factory", [shared_layer, tied_weights])
def test_the_loop_sums_the_gradients_of_shared_weights(factory: Factory) -> None:
    workspace = Workspace(factory, "regression")
    outputs, gradients = looped(workspace)
    torch.testing.assert_close(gradients[1], workspace.gradient(1), rtol=0, atol=1e-10)
    torch.testing.assert_close(
        outputs[1], workspace.plain(1)(workspace.x[1]).detach(), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("factory", [shared_layer, tied_weights])
def test_vmap_sums_the_gradients_of_shared_weights(factory: Factory) -> None:
    workspace = Workspace(factory, "regression")
    _, gradients = vmapped(workspace)
    torch.testing.assert_close(gradients[1], workspace.gradient(1), rtol=0, atol=1e-10)


def test_only_models_without_statistics_or_frozen_parts_are_vmapped() -> None:
    assert vmappable(ModelLayout(CHAINS["mlp"]))
    assert vmappable(ModelLayout(tied_weights))
    assert not vmappable(ModelLayout(frozen))
    assert not vmappable(ModelLayout(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))))


def test_the_stack_runs_its_first_rows_and_leaves_the_gradient_of_the_rest() -> None:
    workspace = Workspace(CHAINS["mlp"], "classification")
    layers = chain(workspace.layout)
    assert layers is not None
    grad = torch.full_like(workspace.rows, 9.0)
    Stacked(layers, workspace.objective, workspace.rows.clone(), grad).gradient(
        workspace.x[:2], workspace.y[:2], workspace.weights[:2]
    )
    torch.testing.assert_close(grad[1], workspace.gradient(1), rtol=0, atol=1e-10)
    assert grad[2].unique().tolist() == [9.0]


def test_the_loop_gives_a_frozen_parameter_no_gradient() -> None:
    workspace = Workspace(frozen, "classification")
    _, gradients = looped(workspace)
    slot = workspace.layout.parameter_slots[0]
    assert slot.name == "1.weight"
    assert np.all(slot.view(gradients[0]).numpy() == 0)
    assert gradients[0].abs().sum() > 0


def test_the_loop_evaluates_without_dropout_or_new_statistics() -> None:
    workspace = Workspace(
        lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.9), nn.Linear(4, 3)), "classification"
    )
    work, grad = workspace.rows[:1].clone(), torch.zeros_like(workspace.rows[:1])
    engine = Looped(workspace.layout, workspace.objective, work, grad)
    engine.gradient(workspace.x[:1], workspace.y[:1], workspace.weights[:1])
    assert engine.counters.tolist() == [1]
    work.copy_(workspace.rows[:1])
    assert torch.equal(engine.outputs(workspace.x[:1]), engine.outputs(workspace.x[:1]))
    assert torch.equal(work, workspace.rows[:1])
    assert engine.counters.tolist() == [1]


def test_a_module_that_writes_into_its_input_spoils_no_data() -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3)))
    work = layout.initial(0, "any")[None]
    engine = Looped(layout, objective_for("classification"), work, torch.zeros_like(work))
    x = torch.full((1, 2, 4), -1.0)
    engine.outputs(x)
    assert (x == -1).all()


def test_held_rows_are_run_where_they_lie_and_training_goes_back_to_the_bench() -> None:
    workspace = Workspace(CHAINS["mlp"], "classification")
    layers = chain(workspace.layout)
    assert layers is not None
    work = torch.zeros_like(workspace.rows)
    engine: Engine = Stacked(layers, workspace.objective, work, torch.zeros_like(work))
    engine.hold(workspace.rows[1:2])
    torch.testing.assert_close(
        engine.outputs(workspace.x[1:2])[0], workspace.plain(1)(workspace.x[1])
    )
    engine.hold(work)
    assert not engine.outputs(workspace.x).any()


@pytest.mark.parametrize("samples", [SAMPLES, engines_module.MANY])
@pytest.mark.parametrize("name", CHAINS)
def test_a_single_model_is_measured_in_one_product_per_layer(
    name: str, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = ModelLayout(CHAINS[name])
    layers, row = chain(layout), layout.initial(0, "a")[None]
    assert layers is not None
    x, called = torch.randn(1, samples, 4), []
    objective = objective_for("classification")
    engines = [
        Stacked(layers, objective, rows, torch.zeros_like(rows)) for rows in (row, row.repeat(2, 1))
    ]
    linear = compat.fused_linear
    monkeypatch.setattr(
        compat, "fused_linear", lambda *arguments: called.append(1) or linear(*arguments)
    )
    alone, of_two = (engine.outputs(x) for engine in engines)
    assert len(called) == len(layers), "only where never more than one is in hand"
    torch.testing.assert_close(alone, of_two)


@pytest.mark.parametrize("samples", [SAMPLES, engines_module.MANY])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_weight_that_is_no_number_shows_in_every_output(rows: int, samples: int) -> None:
    layout = ModelLayout(CHAINS["mlp"])
    layers, work = chain(layout), layout.initial(0, "a").repeat(rows, 1)
    assert layers is not None
    work[:, 0] = torch.nan
    engine = Stacked(layers, objective_for("classification"), work, torch.zeros_like(work))
    assert engine.outputs(torch.ones(rows, samples, 4)).isnan().all(), "a ReLU must not hide it"


@pytest.mark.parametrize("kind", [Looped, Vmapped])
def test_products_in_bfloat16_are_nearly_those_in_float32(
    kind: type[Looped] | type[Vmapped],
) -> None:
    torch.manual_seed(0)
    x, y, weights = torch.randn(1, 40, 16), torch.randint(3, (1, 40)), torch.full((1, 40), 1 / 40)

    def run(*, mixed: bool) -> tuple[Tensor, Tensor]:
        layout = ModelLayout(lambda: perceptron((16, 32, 3)), mixed=mixed)
        work = layout.initial(0, "a")[None].clone()
        grad = torch.zeros_like(work)
        engine: Engine = kind(layout, objective_for("classification"), work, grad)
        engine.gradient(x, y, weights)
        return engine.outputs(x), grad

    for plain, mixed in zip(run(mixed=False), run(mixed=True), strict=True):
        assert mixed.dtype == torch.float32
        assert 0 < (plain - mixed).norm() < 0.02 * plain.norm()
