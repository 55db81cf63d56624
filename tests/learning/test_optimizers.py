from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from federico.learning.optimizer_options import SGD, Adam
from federico.learning.optimizers import OptimizerStates

SIZE = 5


def states_for(optimizer: Adam | SGD) -> OptimizerStates:
    return OptimizerStates(optimizer.moments, SIZE, torch.float64, torch.device("cpu"))


def gradient(step: int, row: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * step + row)
    return torch.randn(SIZE, generator=generator, dtype=torch.float64)


OPTIMIZERS = {
    "adam": (
        Adam(learning_rate=0.02, beta1=0.8, beta2=0.95, eps=1e-3),
        lambda p: torch.optim.Adam([p], lr=0.02, betas=(0.8, 0.95), eps=1e-3),
    ),
    "sgd": (SGD(learning_rate=0.3), lambda p: torch.optim.SGD([p], lr=0.3)),
    "momentum": (
        SGD(learning_rate=0.3, momentum=0.7),
        lambda p: torch.optim.SGD([p], lr=0.3, momentum=0.7),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_with_different_pasts_step_as_torch_would_step_each(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    rows = torch.zeros(3, SIZE, dtype=torch.float64)
    plain = [torch.zeros(SIZE, dtype=torch.float64, requires_grad=True) for _ in rows]
    optimizers = [theirs(p) for p in plain]
    states = states_for(ours)
    for step, active in enumerate([[0], [0, 2], [2], [0, 1, 2], [1, 2], [0, 1, 2]]):
        pair_states = states.of([(9, row) for row in active])
        gradients = [gradient(step, row) for row in active]
        ours.step([rows[row] for row in active], gradients, pair_states)
        for row in active:
            plain[row].grad = gradient(step, row)
            optimizers[row].step()
    torch.testing.assert_close(rows, torch.stack([p.detach() for p in plain]), rtol=0, atol=1e-12)


@pytest.fixture(params=[Adam(), SGD(momentum=0.5)], ids=["adam", "momentum"])
def states(request: pytest.FixtureRequest) -> OptimizerStates:
    return states_for(request.param)


def write(states: OptimizerStates, pair: tuple[int, int], value: float) -> None:
    pair_states = states.of([pair])
    for rows in pair_states.moments:
        rows[0].fill_(value)
    pair_states.steps[0].fill_(value)


def read(states: OptimizerStates, pair: tuple[int, int]) -> set[float]:
    pair_states = states.of([pair])
    numbers = {float(number) for rows in pair_states.moments for number in rows[0]}
    return {pair_states.steps[0].item(), *numbers}


def test_a_new_pair_starts_from_zeros(states: OptimizerStates) -> None:
    assert read(states, (0, 1)) == {0.0}


def test_states_are_kept_in_place_however_many_follow(states: OptimizerStates) -> None:
    for k in range(10):
        write(states, (0, k), k)
    assert [read(states, (0, k)) for k in range(10)] == [{float(k)} for k in range(10)]
    assert len(states) == 10


def test_a_dropped_pair_starts_again_and_disturbs_no_other(states: OptimizerStates) -> None:
    for k in range(3):
        write(states, (0, k), k + 1)
    states.drop((0, 1))
    states.drop((5, 5))
    assert states.pairs == [(0, 0), (0, 2)]
    assert [read(states, (0, k)) for k in range(3)] == [{1.0}, {0.0}, {3.0}]


def test_the_slot_of_a_dropped_pair_is_used_again_clean(states: OptimizerStates) -> None:
    write(states, (0, 0), 1)
    states.drop((0, 0))
    assert read(states, (7, 7)) == {0.0}
    assert states.room == 1


def test_keep_only_forgets_the_rest(states: OptimizerStates) -> None:
    for k in range(4):
        write(states, (0, k), k)
    states.keep_only({(0, 2), (0, 3)})
    assert states.pairs == [(0, 2), (0, 3)]
    assert read(states, (0, 3)) == {3.0}


def test_small_blocks_hold_the_same_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OptimizerStates, "BLOCK_BYTES", 1)
    states = states_for(Adam())
    for k in range(4):
        write(states, (0, k), k)
    assert [read(states, (0, k)) for k in range(4)] == [{float(k)} for k in range(4)]
    assert states.room == 4


@pytest.mark.parametrize("make", [Adam, SGD, lambda: SGD(momentum=0.5)])
@pytest.mark.parametrize("held", [0, 1, 3])
def test_saved_states_come_back(make: Callable[[], Adam | SGD], held: int) -> None:
    before, after = states_for(make()), states_for(make())
    for k in range(held):
        write(before, (k, 0), k + 1)
    write(after, (8, 8), 8)
    after.restore(before.state())
    assert after.pairs == before.pairs
    assert [read(after, (k, 0)) for k in range(held)] == [{float(k + 1)} for k in range(held)]


pairs = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(st.lists(st.tuples(st.sampled_from(["write", "drop", "save"]), pairs), max_size=30))
def test_behaves_as_a_dictionary_whatever_happens(
    actions: list[tuple[str, tuple[int, int]]],
) -> None:
    states, model = states_for(Adam()), dict[tuple[int, int], float]()
    for value, (action, pair) in enumerate(actions, start=1):
        if action == "write":
            write(states, pair, value)
            model[pair] = value
        elif action == "drop":
            states.drop(pair)
            model.pop(pair, None)
        else:
            saved = states.state()
            states = states_for(Adam())
            states.restore(saved)
    assert states.pairs == sorted(model)
    assert {pair: read(states, pair) for pair in model} == {
        pair: {float(v)} for pair, v in model.items()
    }
