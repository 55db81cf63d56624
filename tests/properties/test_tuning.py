"""FedAvg+ is FedAvg until somebody looks: tuning happens on copies."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from federico.learning.client_data import ClientData
from federico.methods.method import Method

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Method]


def test_evaluating_leaves_the_global_model_and_its_optimizers_untouched(
    method: Build, blobs: Clients, batch_norm_net: type[nn.Module]
) -> None:
    for shape in ({"hidden": (5,)}, {"model": batch_norm_net}):
        fedavg, plus = (
            method(name, blobs((8, 4, 6)), **shape) for name in ("fedavg", "fedavg_plus")
        )
        for round_index in (1, 2, 3):
            fedavg.round(round_index)
            plus.round(round_index)
            before = {key: value.clone() for key, value in plus.state().items()}
            plus.predictors(round_index)
            assert all(torch.equal(value, before[key]) for key, value in plus.state().items())
        assert all(torch.equal(value, plus.state()[key]) for key, value in fedavg.state().items())


def test_tuned_copies_fit_their_client_better(method: Build, blobs: Clients) -> None:
    plus = method("fedavg_plus", blobs((30, 30)), tune_epochs=5)
    for round_index in (1, 2, 3):
        plus.round(round_index)
    mixtures = plus.predictors(3)
    tuned = plus.learner.evaluate(mixtures.bank, mixtures.visits)
    shared = plus.learner.evaluate(plus.bank, plus.to_shared())
    assert np.all(tuned < shared)
