"""Threads change no number, and models that draw random numbers run alone."""

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federico.learning.bank import Bank
from federico.learning.client_data import ClientData
from federico.learning.engines import Vmapped
from federico.learning.layout import ModelLayout
from federico.learning.learner import Learner
from federico.learning.visits import Visits
from federico.learning.workers import LARGE_SAMPLE, WORTH_SHARING, draws

ALL = Visits.of([(i, b) for i in range(3) for b in range(3)])


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 3, 2),
        nn.BatchNorm2d(3),
        nn.Flatten(),
        nn.Linear(3, 3),
    )


def wide() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, WORTH_SHARING // 16), nn.ReLU(), nn.Linear(WORTH_SHARING // 16, 3)
    )


def play(learner: Learner) -> list[torch.Tensor]:
    names = {i: str(i) for i in range(3)}
    bank = Bank.start(learner.layout, 0, names, torch.device("cpu"))
    results = [learner.train(bank, ALL, round_index).as_tensor() for round_index in (1, 2)]
    results += [torch.from_numpy(learner.evaluate(bank, ALL)), bank.counters.clone()]
    scores = learner.score(bank, ALL, np.full(len(ALL), 1 / 3))
    return [*results, torch.from_numpy(scores.figures["loss"]), learner.states.state()["moments"]]


@pytest.mark.parametrize("make", [conv, wide])
def test_threads_change_no_number(
    make: Callable[[], nn.Module],
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
    request: pytest.FixtureRequest,
) -> None:
    alone = play(learner(blobs((10, 6, 8)), model=make, batch_size=4))
    request.getfixturevalue("two_threads")
    shared = learner(blobs((10, 6, 8)), model=make, batch_size=4)
    assert shared.workers.threads == 2
    for one, other in zip(alone, play(shared), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_what_an_accelerator_would_run_gives_the_numbers_of_the_loop(
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plain() -> nn.Module:
        return nn.Sequential(
            nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(3, 3)
        )

    one_by_one = play(learner(blobs((10, 6, 8)), model=plain, batch_size=4))
    monkeypatch.setattr("federico.learning.workers.accelerated", lambda device: True)
    at_once = learner(blobs((10, 6, 8)), model=plain, batch_size=4)
    with at_once.workers.workspace() as workspace:
        assert isinstance(workspace.engine, Vmapped)
    for one, other in zip(one_by_one, play(at_once), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_an_error_in_a_thread_reaches_the_caller_and_its_workspace_is_free_again(
    blobs: Callable[..., list[ClientData]], learner: Callable[..., Learner], two_threads: None
) -> None:
    ours = learner(blobs((9, 6, 8)), model=conv, batch_size=4)
    workers = ours.workers

    def work(stack: int) -> int:
        with workers.workspace():
            if stack == 0:
                raise ArithmeticError("wrong")
            return stack

    for _ in range(3):
        with pytest.raises(ArithmeticError, match="wrong"):
            list(workers.map(work, [2, 0, 1]))
    assert list(workers.map(work, [1, 2, 3, 4])) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [(nn.Dropout, True), (nn.RReLU, True), (nn.Tanh, False), (lambda: nn.BatchNorm1d(4), False)],
)
def test_models_that_draw_random_numbers_are_found_out(
    layer: Callable[[], nn.Module], expected: bool
) -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Linear(4, 4), layer()), torch.float32)
    before = torch.get_rng_state()
    assert draws(layout, torch.ones(4)) is expected
    assert torch.equal(before, torch.get_rng_state()), "the caller's generator is left alone"


class Watched(nn.Module):
    """Notes how many threads torch has where the model trains."""

    threads: ClassVar[set[int]] = set()

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, width), nn.Dropout(0.5), nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            Watched.threads.add(torch.get_num_threads())
        outputs: Tensor = self.net(x)
        return outputs


@pytest.mark.parametrize(("width", "threads"), [(16, 1), (LARGE_SAMPLE // 8, 2)])
def test_a_model_with_dropout_runs_alone_and_on_one_core_if_it_is_small(
    blobs: Callable[..., list[ClientData]],
    learner: Callable[..., Learner],
    two_threads: None,
    width: int,
    threads: int,
) -> None:
    ours = learner(blobs((2, 2)), model=lambda: Watched(width), dtype=torch.float32)
    bank = Bank.start(ours.layout, 0, {0: "0", 1: "1"}, torch.device("cpu"))
    Watched.threads.clear()
    ours.train(bank, Visits.of([(0, 0), (1, 1)]), 1)
    assert ours.workers.threads == 1
    assert Watched.threads == {threads}
