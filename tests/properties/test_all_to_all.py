"""Everyone samples everyone from one start: the posterior is uniform, FedeRiCo a known method."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional

from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import Adam
from federico.methods.fedavg import FedAvg
from federico.methods.method import Method, Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Method]
Play = Callable[..., list[Round]]
SYMMETRIC = {
    "preset": "paper",
    "sampler": "everyone",
    "start": "same",
    "solo_rounds": 0,
    "worse_than_guess": "tracked",
}
ROUNDS = 4


class FreshFedAvg(FedAvg):
    """FedAvg whose clients forget their optimizers after every round."""

    def round(self, round_index: int) -> Round:
        self.learner.states.keep_only(set())
        return super().round(round_index)


@pytest.mark.parametrize("sizes", [(6, 6, 6), (6, 3, 7)], ids=["equal", "ragged"])
def test_epochs_equal_fedavg_with_fresh_optimizers(
    method: Build, blobs: Clients, play: Play, sizes: tuple[int, ...]
) -> None:
    federico = method("federico", blobs(sizes), hidden=(5,), optimizer_state="fresh", **SYMMETRIC)
    fedavg = method(FreshFedAvg, blobs(sizes), hidden=(5,))
    assert torch.equal(federico.bank.rows[0], fedavg.bank.rows[0])
    for played in play(federico, ROUNDS):
        assert all(np.allclose(row.weights, 1 / 3) for row in played.posteriors)
    play(fedavg, ROUNDS)
    torch.testing.assert_close(
        federico.bank.rows, fedavg.bank.rows.expand(3, -1), rtol=0, atol=1e-10
    )


def test_a_kept_optimizer_makes_it_equal_to_plain_fedavg(
    method: Build, blobs: Clients, play: Play
) -> None:
    federico, fedavg = (
        method("federico", blobs((6, 6, 6)), **SYMMETRIC),
        method("fedavg", blobs((6, 6, 6))),
    )
    play(federico, ROUNDS)
    play(fedavg, ROUNDS)
    torch.testing.assert_close(
        federico.bank.rows, fedavg.bank.rows.expand(3, -1), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("sizes", [(6, 6, 6), (6, 3, 7)], ids=["equal", "ragged"])
def test_gradients_equal_full_batch_adam_on_the_pooled_data(
    method: Build, blobs: Clients, play: Play, sizes: tuple[int, ...]
) -> None:
    # Adam forgets the scale of its gradient but for eps: next to none, so that a sum may stand for
    # a mean.
    clients = blobs(sizes)
    federico = method(
        "federico", clients, optimizer=Adam(eps=1e-30), m_step="gradient", **SYMMETRIC
    )
    start = federico.bank.rows[0]
    weight, bias = (part.clone().requires_grad_() for part in (start[:12].view(3, 4), start[12:]))
    x = torch.from_numpy(np.concatenate([client.train[0] for client in clients]))
    y = torch.from_numpy(np.concatenate([client.train[1] for client in clients]))
    adam = torch.optim.Adam([weight, bias], lr=0.01, eps=1e-30)
    for _ in range(ROUNDS):
        adam.zero_grad()
        functional.cross_entropy(x @ weight.T + bias, y).backward()
        adam.step()
    play(federico, ROUNDS)
    pooled = torch.cat([weight.flatten(), bias]).detach()
    torch.testing.assert_close(federico.bank.rows, pooled.expand(3, -1), rtol=0, atol=1e-10)
