"""The learner against plain torch: one module, one optimizer, one loop over batches per visit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federico.learning import rows as rows_module
from federico.learning import workers as workers_module
from federico.learning.bank import Bank
from federico.learning.batches import Subset
from federico.learning.client_data import ClientData
from federico.learning.holding_out import held_out, without_lone_batches
from federico.learning.learner import Learner
from federico.learning.local_training import Proximal
from federico.learning.models import perceptron
from federico.learning.optimizer_options import SGD, Adam
from federico.learning.rows import RowsInFiles, RowStorage
from federico.learning.visits import Visits
from federico.rng import stream
from federico.types import FloatArray

RAGGED = (7, 1, 8, 4)
ALL = Visits.of([(2, 1), (0, 0), (1, 0), (3, 3), (0, 2), (1, 1), (2, 2), (3, 0)])
TOLERANCE = 1e-10


class Plain(nn.Module):
    """A perceptron that no engine recognises as one: it runs in the loop."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.net = perceptron(widths)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Own(nn.Module):
    """A user's model: a frozen parameter and an index buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]), requires_grad=False)
        self.head = nn.Linear(3, 3)
        self.register_buffer("index", torch.tensor([3, 0, 2]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x[:, self.index] * self.scale)


class Noisy(nn.Module):
    """A model with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: perceptron((4, 3)),
    "mlp": lambda: perceptron((4, 6, 3)),
    "loop": lambda: Plain(4, 6, 3),
    "own": Own,
}


@pytest.fixture(params=MODELS)
def ragged(
    request: pytest.FixtureRequest,
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
) -> Learner:
    """Four clients, one of them with a single sample, none a multiple of the batch of 3."""
    return learner(blobs(RAGGED), model=MODELS[request.param], batch_size=3)


def bank_for(learner: Learner) -> Bank:
    return Bank.start(
        learner.layout, 5, {i: str(i) for i in range(len(learner.names))}, learner.device
    )


def module_of(learner: Learner, row: Tensor) -> nn.Module:
    return learner.layout.bind(row.clone(), learner.layout.initial_counters())


def data_of(learner: Learner, client: int, part: str = "train") -> tuple[Tensor, Tensor]:
    data = learner.data[part]  # type: ignore[index]
    (batch,) = data.in_stored_order(np.array([client]), int(data.counts[client]))
    return data.inputs(batch.index)[0], data.targets(batch.index)[0]


class PlainTraining:
    """The same training with nothing but torch; optimizers are kept per pair."""

    def __init__(
        self, learner: Learner, make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
    ) -> None:
        self.learner = learner
        self.make = make
        self.kept: dict[tuple[int, int], dict[str, object]] = {}

    def delta(
        self,
        row: Tensor,
        pair: tuple[int, int],
        round_index: int,
        epochs: int,
        fresh: bool,
        scale: Tensor | None = None,
    ) -> Tensor:
        learner, client = self.learner, pair[0]
        module = module_of(learner, row).train()
        optimizer = self.make([p for p in module.parameters() if p.requires_grad])
        if pair in self.kept and not fresh:
            optimizer.load_state_dict(self.kept[pair])
        x, y = data_of(learner, client)
        scale = torch.ones(len(x)) if scale is None else scale
        for epoch in range(epochs):
            order = stream(
                learner.seed, "batches", learner.names[client], round_index, epoch
            ).permutation(len(x))
            for batch in torch.from_numpy(order).split(learner.batch_size):
                optimizer.zero_grad()
                (scale[batch] * learner.objective(module(x[batch]), y[batch])).mean().backward()
                optimizer.step()
        self.kept[pair] = optimizer.state_dict()
        return learner.layout.flatten(module) - row


def adam(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


@pytest.mark.parametrize(("epochs", "fresh"), [(1, False), (1, True), (3, False)])
def test_training_is_a_plain_loop_per_visit(ragged: Learner, epochs: int, fresh: bool) -> None:
    bank, plain = bank_for(ragged), PlainTraining(ragged, adam)
    for round_index in (1, 2, 3):
        deltas = ragged.train(bank, ALL, round_index, epochs=epochs, fresh=fresh).as_tensor()
        for delta, pair in zip(deltas, ALL.pairs, strict=True):
            expected = plain.delta(bank.rows[pair[1]], pair, round_index, epochs, fresh)
            torch.testing.assert_close(delta, expected, rtol=0, atol=TOLERANCE)
        bank.rows += (
            0.1 * deltas[torch.from_numpy(np.argsort(ALL.owners, kind="stable")[[0, 3, 5, 7]])]
        )


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_training_with_sgd_is_a_plain_loop_too(
    momentum: float, blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    ours = learner(blobs(RAGGED), optimizer=SGD(learning_rate=0.05, momentum=momentum), hidden=(5,))
    plain = PlainTraining(ours, lambda p: torch.optim.SGD(p, lr=0.05, momentum=momentum))
    bank = bank_for(ours)
    for round_index in (1, 2):
        deltas = ours.train(bank, ALL, round_index).as_tensor()
        for delta, pair in zip(deltas, ALL.pairs, strict=True):
            expected = plain.delta(bank.rows[pair[1]], pair, round_index, 1, False)
            torch.testing.assert_close(delta, expected, rtol=0, atol=TOLERANCE)


def test_sample_weights_multiply_the_loss_of_each_sample(ragged: Learner) -> None:
    bank, plain = bank_for(ragged), PlainTraining(ragged, adam)
    weights = np.random.default_rng(1).random((len(ALL), max(RAGGED)))
    for round_index in (1, 2):
        deltas = ragged.train(bank, ALL, round_index, epochs=2, sample_weights=weights).as_tensor()
        for delta, pair, scale in zip(deltas, ALL.pairs, torch.from_numpy(weights), strict=True):
            expected = plain.delta(bank.rows[pair[1]], pair, round_index, 2, False, scale)
            torch.testing.assert_close(delta, expected, rtol=0, atol=TOLERANCE)
    ones, none = (
        ragged.train(bank, ALL, 1, fresh=True, sample_weights=w).as_tensor()
        for w in (np.ones_like(weights), None)
    )
    assert torch.equal(ones, none)


@pytest.mark.parametrize("wrapped", [False, True], ids=["stacked", "loop"])
def test_a_proximal_term_pulls_every_step_by_hand(
    learner: Callable[..., Learner], wrapped: bool
) -> None:
    """f(x) = w x + b with squared error on one sample (2, 1) per client; two steps of SGD at 0.1.

    From w = 1, b = 0 towards w = 0, b = 1 with strength 0.5: the first gradient is
    2 (2 - 1) (2, 1) = (4, 2), the pull 0.5 (1, -1), so w = 1 - 0.45 = 0.55 and b = -0.15.
    There f = 0.95, the gradient is -0.1 (2, 1) = (-0.2, -0.1), the pull is
    0.5 (0.55, -1.15) = (0.275, -0.575), so w = 0.55 - 0.0075 = 0.5425 and
    b = -0.15 + 0.0675 = -0.0825.
    """
    sample = np.array([[2.0]]), np.array([[1.0]])
    clients = [ClientData(name, sample, sample) for name in "ab"]
    plain = learner(
        clients,
        model=(lambda: Plain(1, 1)) if wrapped else (lambda: perceptron((1, 1))),
        optimizer=SGD(learning_rate=0.1),
    )
    bank = bank_for(plain)
    bank.rows[:] = torch.tensor([1.0, 0.0])

    visits = Visits.of([(0, 0), (1, 0)])
    towards = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    deltas = plain.train(bank, visits, 1, epochs=2, proximal=Proximal(0.5, towards)).as_tensor()
    np.testing.assert_allclose(deltas[0], [0.5425 - 1, -0.0825], atol=1e-12)

    # Towards where it began: the first step is not pulled, w = 0.6 and b = -0.2. There f = 1, so
    # the second is the pull alone.
    np.testing.assert_allclose(deltas[1], [-0.4 + 0.1 * 0.2, -0.2 + 0.1 * 0.1], atol=1e-12)


def test_a_proximal_term_reaches_its_own_visit_and_no_other(ragged: Learner) -> None:
    bank = bank_for(ragged)
    towards = bank.rows[bank.places(ALL.owners)]  # a copy
    near = ragged.train(bank, ALL, 1, fresh=True, proximal=Proximal(1.0, towards)).as_tensor()
    towards[3] += 100
    far = ragged.train(bank, ALL, 1, fresh=True, proximal=Proximal(1.0, towards)).as_tensor()
    changed = (far != near).any(1)
    assert changed.nonzero().flatten().tolist() == [3]

    without = ragged.train(bank, ALL, 1, fresh=True).as_tensor()
    of_no_strength = ragged.train(
        bank, ALL, 1, fresh=True, proximal=Proximal(0.0, towards)
    ).as_tensor()
    assert torch.equal(of_no_strength, without)


def test_what_is_held_out_is_never_trained_on(
    blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    ours, whole = learner(blobs((10, 1, 7))), learner(blobs((10, 1, 7)))
    ours.hold_out(0.2)
    assert ours.samples.tolist() == [8, 1, 6]
    for client in (0, 2):
        parts = [data_of(ours, client, part) for part in ("train", "held_out")]
        for together, all_of_it in zip(
            map(torch.cat, zip(*parts, strict=True)), data_of(whole, client), strict=True
        ):
            assert sorted(together.tolist()) == sorted(all_of_it.tolist())
    assert torch.equal(data_of(ours, 1, "held_out")[0], data_of(ours, 1)[0]), (
        "a single sample serves for both"
    )


def test_what_a_client_holds_out_depends_on_nobody_else(
    blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    first, second = blobs((10, 12))
    twin = ClientData("twin", second.train, second.test)
    together, alone = learner([first, second, twin]), learner([second])
    for one in (together, alone):
        one.hold_out(0.5)
    held = [data_of(together, client, "held_out")[0] for client in (1, 2)]
    assert torch.equal(held[0], data_of(alone, 0, "held_out")[0])
    assert not torch.equal(held[0], held[1]), "who it is decides"


@pytest.mark.parametrize(
    ("samples", "held"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 1), (8, 2), (60, 12)]
)
def test_at_least_one_is_held_out_but_never_the_last(samples: int, held: int) -> None:
    assert held_out(np.array([samples]), 0.2).tolist() == [held]
    assert held_out(np.array([samples]), 0.99).tolist() == [max(samples - 1, 0)]


@pytest.mark.parametrize(
    ("samples", "held", "fitting"),
    [
        (60, 12, 12),  # the last batch has 8 samples
        (14, 3, 2),  # one less: the last batch has 2
        (6, 1, 1),  # 5 are left: one batch
        (12, 1, 2),  # 11 would leave a lone sample, and without any there would be no evidence
        (2, 1, 0),  # one sample is left in any case
    ],
)
def test_no_sample_is_left_alone_in_a_batch(samples: int, held: int, fitting: int) -> None:
    found = without_lone_batches(np.array([samples]), np.array([held]), batch_size=10)
    assert found.tolist() == [fitting]


def test_training_leaves_the_models_alone(ragged: Learner) -> None:
    bank = bank_for(ragged)
    before = bank.rows.clone()
    assert ragged.train(bank, ALL, 1).as_tensor().abs().sum() > 0
    assert torch.equal(bank.rows, before)


def test_fresh_training_neither_uses_nor_leaves_optimizer_states(ragged: Learner) -> None:
    bank = bank_for(ragged)
    first = ragged.train(bank, ALL, 1, fresh=True).as_tensor()
    assert len(ragged.states) == 0
    ragged.train(bank, ALL, 1).as_tensor()
    assert torch.equal(ragged.train(bank, ALL, 1, fresh=True).as_tensor(), first)


def test_only_visited_pairs_keep_a_state(ragged: Learner) -> None:
    ragged.train(bank_for(ragged), ALL, 1).as_tensor()
    assert ragged.states.pairs == sorted(ALL.pairs)


def test_the_order_of_visits_changes_no_bit(ragged: Learner) -> None:
    bank, order = bank_for(ragged), np.random.default_rng(0).permutation(len(ALL))
    assert np.array_equal(ragged.evaluate(bank, ALL)[order], ragged.evaluate(bank, ALL[order]))
    assert torch.equal(
        ragged.gradient(bank, ALL, 1).as_tensor()[order],
        ragged.gradient(bank, ALL[order], 1).as_tensor(),
    )
    assert torch.equal(
        ragged.train(bank, ALL, 1, fresh=True).as_tensor()[order],
        ragged.train(bank, ALL[order], 1, fresh=True).as_tensor(),
    )


def test_a_full_stack_is_cut_without_changing_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
) -> None:
    whole = learner(blobs(RAGGED), hidden=(5,))
    monkeypatch.setattr(workers_module, "STACK_NUMBERS", 3 * whole.layout.size)
    cut = learner(blobs(RAGGED), hidden=(5,))
    bank = bank_for(whole)
    for round_index in (1, 2):
        deltas = [one.train(bank, ALL, round_index).as_tensor() for one in (whole, cut)]
        torch.testing.assert_close(deltas[0], deltas[1], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(cut.evaluate(bank, ALL), whole.evaluate(bank, ALL), atol=TOLERANCE)
    torch.testing.assert_close(
        cut.gradient(bank, ALL, 1).as_tensor(),
        whole.gradient(bank, ALL, 1).as_tensor(),
        rtol=0,
        atol=TOLERANCE,
    )
    weights = np.full(len(ALL), 0.5)
    np.testing.assert_allclose(
        cut.score(bank, ALL, weights).figures["loss"],
        whole.score(bank, ALL, weights).figures["loss"],
    )


@pytest.mark.parametrize("model", ["linear", "loop"])
@pytest.mark.parametrize("sizes", [(1,), (511, 2), (512, 513), (1100, 3, 1)])
def test_losses_are_those_of_the_samples_and_evaluation_is_their_mean(
    model: str,
    sizes: tuple[int, ...],
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
) -> None:
    ours = learner(blobs(sizes), model=MODELS[model])
    bank = bank_for(ours)
    visits = Visits.of([(i, b) for i in range(len(sizes)) for b in range(len(sizes))])
    parts: tuple[Subset, ...] = ("train", "test")
    for part in parts:
        means = ours.evaluate(bank, visits, part)
        losses = ours.losses(bank, visits, part)
        for mean, loss, (client, owner) in zip(means, losses, visits.pairs, strict=True):
            x, y = data_of(ours, client, part)
            module = module_of(ours, bank.rows[owner]).eval().requires_grad_(False)
            by_hand = [
                float(ours.objective(module(x[k : k + 1]), y[k : k + 1])) for k in range(len(x))
            ]
            assert mean == pytest.approx(np.mean(by_hand), abs=TOLERANCE)
            np.testing.assert_allclose(loss[: len(x)], by_hand, rtol=0, atol=TOLERANCE)
            assert not loss[len(x) :].any()


def test_the_gradient_is_the_sum_over_samples(ragged: Learner) -> None:
    bank = bank_for(ragged)
    for gradient, (client, owner) in zip(
        ragged.gradient(bank, ALL, 1).as_tensor(), ALL.pairs, strict=True
    ):
        module = module_of(ragged, bank.rows[owner])
        x, y = data_of(ragged, client)
        for k in range(len(x)):
            ragged.objective(module(x[k : k + 1]), y[k : k + 1]).sum().backward()
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
        torch.testing.assert_close(
            gradient, torch.cat([g.flatten() for g in parts]), rtol=0, atol=TOLERANCE
        )


@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=["adam", "sgd"])
def test_descending_for_nobody_moves_nothing(
    optimizer: Adam | SGD, blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    ours = learner(blobs(RAGGED), optimizer=optimizer)
    bank = bank_for(ours)
    before = bank.rows.clone()
    ours.descend(bank, np.array([], dtype=np.int64), ours.zeros(0), round_index=1)
    assert torch.equal(bank.rows, before)


def test_descending_steps_the_owners_named_and_nobody_else(ragged: Learner) -> None:
    bank = bank_for(ragged)
    before, plain = bank.rows.clone(), bank.rows.clone().requires_grad_()
    gradients = ragged.gradient(bank, Visits.of([(0, 1), (2, 3)]), 1).as_tensor()
    optimizer = torch.optim.Adam([plain], lr=0.01)
    for _ in range(3):
        ragged.descend(bank, np.array([1, 3]), gradients, round_index=1)
        plain.grad = torch.zeros_like(plain)
        plain.grad[[1, 3]] = gradients
        optimizer.step()
    torch.testing.assert_close(bank.rows, plain.detach(), rtol=0, atol=TOLERANCE)
    assert torch.equal(bank.rows[[0, 2]], before[[0, 2]])


def test_a_frozen_parameter_is_never_trained(
    blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    ours = learner(blobs(RAGGED), model=Own)
    frozen = ours.layout.parameter_slots[0]
    deltas = ours.train(bank_for(ours), ALL, 1, epochs=2).as_tensor()
    assert frozen.name == "scale"
    assert all((frozen.view(delta) == 0).all() for delta in deltas)


@pytest.fixture
def noisy(blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]) -> Learner:
    return learner(blobs(RAGGED), model=Noisy)


@pytest.mark.parametrize("verb", ["train", "gradient"])
def test_dropout_follows_from_seed_client_and_round(noisy: Learner, verb: str) -> None:
    bank = bank_for(noisy)

    def run(visits: Sequence[tuple[int, int]], round_index: int) -> Tensor:
        noisy.states.keep_only(set())
        rows: Tensor = getattr(noisy, verb)(bank, Visits.of(visits), round_index).as_tensor()
        return rows

    torch.manual_seed(1)
    first = run([(0, 0), (2, 2)], 1)
    torch.manual_seed(2)
    assert torch.equal(run([(2, 2), (3, 3)], 1)[0], first[1]), (
        "whoever else is visited, whatever torch drew before"
    )
    assert not torch.equal(run([(0, 0)], 2)[0], first[0])


@pytest.mark.parametrize("verb", ["train", "gradient"])
def test_dropout_leaves_torchs_own_generator_alone(noisy: Learner, verb: str) -> None:
    before = torch.get_rng_state()
    getattr(noisy, verb)(bank_for(noisy), ALL, 1).as_tensor()
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_differs_between_epochs(noisy: Learner) -> None:
    bank = bank_for(noisy)
    noisy.batch_size = 100
    one = noisy.train(bank, Visits.of([(1, 1)]), 1, epochs=1).as_tensor()
    bank.rows[1] += one[0]
    noisy.states.keep_only(set())
    again = noisy.train(bank, Visits.of([(1, 1)]), 1, epochs=1).as_tensor()
    bank.rows[1] -= one[0]
    noisy.states.keep_only(set())
    both = noisy.train(bank, Visits.of([(1, 1)]), 1, epochs=2).as_tensor()
    assert not torch.allclose(both[0], one[0] + again[0])


@pytest.fixture(params=[0.1, None], ids=["momentum", "cumulative"])
def normed(
    request: pytest.FixtureRequest,
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
    batch_norm_net: type[nn.Module],
) -> Learner:
    return learner(blobs((8, 6, 4)), model=lambda: batch_norm_net(request.param), batch_size=2)


OTHERS = Visits.of([(1, 0), (0, 0), (2, 0), (1, 1), (0, 1)])


def test_statistics_travel_and_counters_move_with_the_owner_only(normed: Learner) -> None:
    bank, first = bank_for(normed), normed.layout.parameters
    deltas = normed.train(bank, OTHERS, 1).as_tensor()
    assert (deltas[:, first:].abs().sum(1) > 0).all()
    assert bank.counters[:, 0].tolist() == [4, 3, 0], "own batches: 8 / 2, 6 / 2, not visited"


def test_statistics_are_those_of_a_plain_loop_with_the_owners_counter(normed: Learner) -> None:
    bank = bank_for(normed)
    bank.counters[:, 0] = torch.tensor([5, 7, 9])
    deltas = normed.train(bank, OTHERS, 1).as_tensor()
    for delta, (client, owner) in zip(deltas, OTHERS.pairs, strict=True):
        module = normed.layout.bind(
            bank.rows[owner].clone(), torch.tensor([5, 7, 9])[owner : owner + 1]
        ).train()
        x, _ = data_of(normed, client)
        order = stream(normed.seed, "batches", normed.names[client], 1, 0).permutation(len(x))
        for batch in torch.from_numpy(order).split(2):
            module.get_submodule("norm")(x[batch])
        moved = normed.layout.flatten(module) - bank.rows[owner]
        torch.testing.assert_close(
            delta[normed.layout.parameters :],
            moved[normed.layout.parameters :],
            rtol=0,
            atol=TOLERANCE,
        )


def test_a_proximal_term_leaves_statistics_alone(normed: Learner) -> None:
    bank, own = bank_for(normed), Visits.to_own(np.arange(2))
    towards = bank.rows.clone()
    towards[:, normed.layout.parameters :] = torch.nan
    deltas = normed.train(bank, own, 1, proximal=Proximal(0.5, towards)).as_tensor()
    assert deltas.isfinite().all()


def test_measuring_leaves_statistics_and_counters_alone(normed: Learner) -> None:
    bank = bank_for(normed)
    rows = bank.rows.clone()
    losses = normed.evaluate(bank, OTHERS)
    normed.score(bank, Visits.to_own(np.arange(3)), np.ones(3))
    assert torch.equal(bank.rows, rows)
    assert bank.counters.sum() == 0
    x, y = data_of(normed, 1)
    by_hand = normed.objective(module_of(normed, rows[0]).eval()(x), y).mean()
    assert losses[0] == pytest.approx(float(by_hand.detach()), abs=TOLERANCE)


def test_a_diverged_visit_forgets_its_moments(
    blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    ours = learner(blobs((4, 4)))
    bank = bank_for(ours)
    bank.rows[1] = torch.nan
    deltas = ours.train(bank, Visits.of([(0, 0), (0, 1)]), 1).as_tensor()
    assert deltas.isfinite().all(1).tolist() == [True, False]
    assert ours.states.pairs == [(0, 0)]


def test_a_model_of_nan_spoils_no_other_visit_of_its_stack(ragged: Learner) -> None:
    bank = bank_for(ragged)
    clean = ragged.evaluate(bank, ALL)
    bank.rows[0] = torch.nan
    losses = ragged.evaluate(bank, ALL)
    assert np.isnan(losses[ALL.owners == 0]).all()
    np.testing.assert_array_equal(losses[ALL.owners != 0], clean[ALL.owners != 0])


def mixture_by_hand(
    learner: Learner, bank: Bank, visits: Visits, weights: FloatArray, client: int
) -> FloatArray:
    x, _ = data_of(learner, client, "test")
    mixed = 0.0
    for (i, owner), weight in zip(visits.pairs, weights, strict=True):
        if i == client:
            mixed = (
                mixed
                + weight
                * torch.softmax(module_of(learner, bank.rows[owner]).eval()(x), 1).detach().numpy()
            )
    return np.asarray(mixed)


def test_scores_are_those_of_the_mixed_probabilities(ragged: Learner) -> None:
    bank = bank_for(ragged)
    weights = np.array([0.3, 0.6, 0.5, 0.9, 0.4, 0.5, 0.7, 0.1])
    scores = ragged.score(bank, ALL, weights)
    for client in range(4):
        mixed, y = (
            mixture_by_hand(ragged, bank, ALL, weights, client),
            data_of(ragged, client, "test")[1].numpy(),
        )
        assert scores.figures["loss"][client] == pytest.approx(
            -np.log(mixed[np.arange(len(y)), y]).mean(), abs=1e-9
        )
        assert scores.figures["accuracy"][client] == pytest.approx((mixed.argmax(1) == y).mean())


def test_a_model_without_an_answer_is_left_out_of_a_mixture(ragged: Learner) -> None:
    bank = bank_for(ragged)
    visits = Visits.of([(client, owner) for client in range(4) for owner in (0, 1, 2)])
    without = ragged.mix(bank, visits, np.tile([0.75, 0.0, 0.25], 4))
    bank.rows[1] = torch.nan
    with_broken = ragged.mix(bank, visits, np.tile([0.375, 0.5, 0.125], 4))
    torch.testing.assert_close(with_broken, without)


def test_of_two_mixtures_the_one_with_an_answer_is_used(ragged: Learner) -> None:
    bank = bank_for(ragged)
    visits = Visits.to_own(np.arange(4))
    first = ragged.mix(bank, visits, np.ones(4))
    broken = torch.full_like(first, torch.nan)
    share = np.array([0.0, 0.25, 0.5, 1.0])
    of_last = slice(len(first) - int(ragged.data["test"].counts[-1]), None)
    used = ragged.combined(first, broken, share)
    torch.testing.assert_close(used[: of_last.start], first[: of_last.start])
    assert used[of_last].isnan().all(), "a share of nothing answers for nobody"


def test_regression_scores_the_mixed_values(
    sine: Callable[..., list[ClientData]], learner: Callable[..., Learner]
) -> None:
    ours = learner(sine((5, 5)))
    bank = bank_for(ours)
    scores = ours.score(bank, Visits.of([(0, 0), (0, 1), (1, 1)]), np.array([0.25, 0.75, 1.0]))
    x, y = data_of(ours, 0, "test")
    values = [module_of(ours, row)(x).detach() for row in bank.rows]
    assert scores.figures["loss"][0] == pytest.approx(
        float((0.25 * values[0] + 0.75 * values[1] - y).square().mean())
    )
    assert scores.figures.keys() == {"loss", "rmse", "mae", "r2", "skill"}


def test_images_are_scaled_before_they_meet_a_model(learner: Callable[..., Learner]) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(3, 1, 4, 4) * 5
    part = (pixels, np.array([0, 1, 2]))
    ours = learner([ClientData("c0", part, part)], model=lambda: perceptron((16, 3)))
    bank = bank_for(ours)
    x = torch.from_numpy((pixels.astype(np.float64) - 127.5) / 63.75)
    expected = ours.objective(module_of(ours, bank.rows[0])(x), torch.tensor([0, 1, 2])).mean()
    assert ours.evaluate(bank, Visits.to_own(np.arange(1)))[0] == pytest.approx(
        float(expected.detach()), abs=TOLERANCE
    )


@pytest.mark.parametrize("verb", ["train", "gradient"])
def test_moves_that_are_put_away_are_the_same_numbers(
    ragged: Learner, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = bank_for(ragged)
    expected = getattr(ragged, verb)(bank, ALL, 1).as_tensor().clone()
    monkeypatch.setattr(rows_module, "LARGE", 1)
    ragged.storage, ragged.states = RowStorage(outbox=tmp_path), ragged.new_states()
    moves = getattr(ragged, verb)(bank, ALL, 1)
    assert isinstance(moves, RowsInFiles)
    assert torch.equal(moves.as_tensor(), expected)
    assert torch.equal(bank.rows, bank_for(ragged).rows)
