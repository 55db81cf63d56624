"""Differential privacy: what a step does is what Opacus does, and so is what it costs."""

import numpy as np
import opacus
import pytest
import torch
from opacus.accountants import RDPAccountant
from torch import Tensor, nn

from federico.errors import ConfigError
from federico.learning.engines import Looped, Stacked, chain
from federico.learning.layout import ModelLayout
from federico.learning.objectives import objective_for
from federico.learning.privacy import (
    Noise,
    PrivacyAccount,
    check_private_training,
    epsilon_of,
    least_noise,
)
from federico.learning.privacy_rules import Floor, PrivacyRules

BOUND = 0.5


def linear_chain() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 6 * 6, 10),
    )


def clipped_by_opacus(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The sum of clipped gradients as Opacus computes it."""
    wrapped = opacus.GradSampleModule(module, loss_reduction="sum")
    nn.functional.cross_entropy(wrapped(x), y, reduction="sum").backward()  # type: ignore[no-untyped-call]
    each = torch.cat([p.grad_sample.flatten(1) for p in module.parameters()], dim=1)
    factors = (BOUND / each.norm(dim=1)).clamp(max=1)
    return (factors[:, None] * each).sum(0)


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("make", [linear_chain, convolutions])
def test_gradients_of_single_samples_are_clipped_as_opacus_does(make: object) -> None:
    assert callable(make)
    layout = ModelLayout(make, torch.float64)
    row = torch.zeros(1, layout.size, dtype=torch.float64)
    layout.initial(0, "any", row[0])
    grad = torch.zeros_like(row)
    objective = objective_for("classification")
    layers = chain(layout)
    engine: Stacked | Looped = Looped(layout, objective, row, grad)
    if layers is not None:
        engine = Stacked(layers, objective, row, grad)

    x = torch.randn(1, 7, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.arange(7)[None]
    engine.clipped_gradient(x, y, torch.ones(1, 7, dtype=torch.float64), BOUND)

    module = layout.bind(row[0].clone(), layout.initial_counters()).train()
    assert torch.allclose(grad[0], clipped_by_opacus(module, x[0], y[0]), atol=1e-12)
    engine.clipped_gradient(x, y, torch.zeros(1, 7, dtype=torch.float64), BOUND)
    assert grad.eq(0).all(), "padding has no gradient"


def test_steps_cost_what_the_accountant_of_opacus_says() -> None:
    accountant = RDPAccountant()
    accountant.history = [(1.1, 0.5, 30), (1.1, 0.25, 40)]
    theirs = accountant.get_epsilon(delta=1e-5)
    ours = epsilon_of(((0.5, 30), (0.25, 40)), 1.1, 1e-5)
    assert theirs <= ours + 1e-9 <= 1.05 * theirs, "a bound, and hardly a worse one"
    assert epsilon_of((), 1.1, 1e-5) == 0


@pytest.mark.parametrize("epsilon", [8, 1])
def test_the_noise_is_the_least_that_fits(epsilon: float) -> None:
    noise = least_noise(0.5, 40, epsilon, 1e-5)
    assert epsilon_of(((0.5, 40),), noise, 1e-5) <= epsilon
    assert epsilon_of(((0.5, 40),), 0.95 * noise, 1e-5) > epsilon


def account(**changes: object) -> PrivacyAccount:
    settings = {"epsilon": 8.0, "delta": 1e-5, "clip": 1.0, "noise": 2.0}
    rules = PrivacyRules(**(settings | {"planned_visits": 10, "secret": 0} | changes))  # type: ignore[arg-type]
    opened = PrivacyAccount(rules, batch_size=20, epochs=1)
    opened.open(np.array([50, 10]))
    return opened


def test_an_account_adds_up_visits_before_and_after_the_held_out_samples_are_trained_on() -> None:
    spending = account()
    assert spending.spent().tolist() == [0, 0]
    spending.hold_out(np.array([40, 8]))
    spending.charge(np.array([0, 0]), np.array([40, 40]))
    spending.charge(np.array([0]), np.array([50]))
    assert spending.steps.tolist() == [[4, 3], [0, 0]]
    expected = epsilon_of(((0.5, 4), (0.4, 3)), 2.0, 1e-5)
    assert spending.spent().tolist() == [expected, 0]


def test_visits_that_would_exceed_the_budget_are_not_affordable() -> None:
    spending = account()
    made = 0
    while spending.affordable(1, visits=1, samples=10):
        spending.charge(np.array([1]), np.array([10]))
        made += 1
    assert made > 3
    assert spending.spent()[1] <= 8 < epsilon_of(((1.0, made + 1),), 2.0, 1e-5)


def test_what_is_spent_stays_spent() -> None:
    spending = account()
    spending.charge(np.array([0]), np.array([50]))
    spending.restore(np.array([0, 1]), np.array([[0, 1], [0, 5]]))
    assert spending.steps.tolist() == [[0, 3], [0, 5]]


def test_an_account_that_is_used_up_affords_no_visit_and_shows_no_more_than_its_budget() -> None:
    spending = account()
    spending.hold_out(np.array([40, 8]))
    spending.charge(np.array([0]), np.array([40]))
    spending.use_up(0)
    assert not spending.affordable(0, 1, 40)
    assert not spending.affordable(0, 1, 50)
    assert 7 < spending.spent()[0] <= 8
    assert spending.steps[1].tolist() == [0, 0]


@pytest.mark.parametrize("samples", [40, 50])
def test_what_nobody_knows_costs_at_least_what_it_can_have_cost(samples: int) -> None:
    spending = account()
    spending.hold_out(np.array([40, 8]))
    spending.charge_at_most(0, 3)
    known = account()
    known.hold_out(np.array([40, 8]))
    known.charge(np.array([0, 0, 0]), np.array([samples] * 3))
    assert spending.spent()[0] >= known.spent()[0] > 0


def test_noise_depends_on_the_secret_and_on_the_visit() -> None:
    def first(secret: int, owner: int) -> float:
        row = torch.zeros(1)
        Noise(account(secret=secret).rules, "a", owner, 1).add_to(row, 1.0)
        return float(row)

    assert first(1, 0) == first(1, 0)
    assert len({first(1, 0), first(2, 0), first(1, 1)}) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
        lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)),
    ],
)
def test_a_model_whose_samples_see_each_other_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=r"privacy\.epsilon: .*BatchNorm"):
        check_private_training(ModelLayout(make, torch.float32))


def test_the_floor_counts_samples_and_batches() -> None:
    assert Floor().allows(1, batch_size=50)
    assert not Floor(samples=10).allows(9, batch_size=50)
    assert Floor(samples=10).allows(10, batch_size=50)
    assert not Floor(batches=2).allows(50, batch_size=50)
    assert Floor(batches=2).allows(51, batch_size=50)
