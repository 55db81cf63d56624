from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError

from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.fedavg_plus import FedAvgPlus, FedAvgPlusOptions
from federico.methods.method import Method, Needs

Clients = Callable[..., list[ClientData]]
TO_GLOBAL = Visits.of([(0, 3), (1, 3), (2, 3)])


@pytest.mark.parametrize("epochs", [1, 3])
def test_predicts_with_copies_tuned_by_a_fresh_optimizer(
    method: Callable[..., Method], blobs: Clients, epochs: int
) -> None:
    plus = method("fedavg_plus", blobs((7, 4, 5)), tune_epochs=epochs)
    for round_index in (1, 2):
        plus.round(round_index)
    mixtures = plus.predictors(2)
    tuned = (
        plus.bank.rows
        + plus.learner.train(plus.bank, TO_GLOBAL, 2, epochs=epochs, fresh=True).as_tensor()
    )
    assert torch.equal(mixtures.bank.rows, tuned)
    assert mixtures.visits.pairs == [(0, 0), (1, 1), (2, 2)]
    assert not torch.equal(tuned[0], tuned[1])


def test_at_least_one_epoch_is_tuned() -> None:
    with pytest.raises(ValidationError):
        FedAvgPlusOptions(tune_epochs=0)


def test_a_tuned_copy_needs_an_optimizer_of_its_own() -> None:
    assert FedAvgPlus.memory(FedAvgPlusOptions(), 5, 10) == Needs(
        models=1, updates=5, pairs=5, fresh=5
    )
