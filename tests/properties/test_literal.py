"""The preset `literal` is Algorithm 1 as printed, and what it leaves open stays an option."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from federico.learning.client_data import ClientData
from federico.methods.federico import Federico
from federico.methods.federico_options import FedericoOptions
from federico.methods.method import Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
Play = Callable[..., list[Round]]
SIZES = (7, 4, 5, 6, 3)


def changed(options: FedericoOptions, other: FedericoOptions) -> dict[str, object]:
    """The options that differ from the other's."""
    return {name: value for name, value in options if value != getattr(other, name)}


def test_paper_sets_the_papers_rule_and_nothing_else() -> None:
    assert changed(FedericoOptions(preset="paper"), FedericoOptions()) == {
        "preset": "paper",
        "evidence": "training",
        "say": "sender",
        "accept": "any",
        "private_model": False,
        "w_max": 1.0,
    }


def test_literal_sets_what_the_algorithm_prints_and_nothing_else() -> None:
    paper = FedericoOptions(preset="paper")
    assert changed(FedericoOptions(preset="literal"), paper) == {
        "preset": "literal",
        "loss": "sum",
        "strangers": "literal",
        "solo_rounds": 0,
        "m_step": "gradient",
        "w_min": 0.0,
        "worse_than_guess": "tracked",
    }


def test_what_one_sets_oneself_wins() -> None:
    options = FedericoOptions(preset="literal", loss="mean", m_step="epochs")
    assert (options.loss, options.m_step, options.strangers) == ("mean", "epochs", "literal")


def test_options_written_out_come_back_the_same() -> None:
    for options in (
        FedericoOptions(preset="literal", loss="mean"),
        FedericoOptions(preset="paper", temperature=0.1),
        FedericoOptions(neighbors=1),
    ):
        assert FedericoOptions.model_validate(options.model_dump()) == options


def test_strangers_count_as_loss_zero_in_the_posterior(
    method: Build, blobs: Clients, play: Play
) -> None:
    federico = method("federico", blobs(SIZES), preset="literal", neighbors=1)
    for round_index in (1, 2, 3):
        (played,) = play(federico, 1, first=round_index)
        for row, tracker in zip(played.posteriors, federico.evidence.losses.values(), strict=True):
            losses = np.zeros(len(SIZES))
            losses[tracker.peers] = tracker.tracked
            scores = np.exp(-losses)
            assert row.peers.tolist() == list(range(len(SIZES)))
            np.testing.assert_allclose(row.weights, scores / scores.sum(), rtol=1e-9)


def test_one_round_is_one_step_of_summed_weighted_gradients(method: Build, blobs: Clients) -> None:
    clients = blobs(SIZES)
    federico = method("federico", clients, preset="literal", neighbors=2)
    start = federico.bank.rows.clone()
    played = federico.round(1)
    assert [len(row) for row in played.neighbors] == [2] * 5, "no solo round"
    for b in range(5):
        weight, bias = (
            part.clone().requires_grad_() for part in (start[b, :12].view(3, 4), start[b, 12:])
        )
        total = torch.zeros((), dtype=torch.float64)
        for i, client in enumerate(clients):
            if b == i or b in played.neighbors[i]:
                x, y = (torch.from_numpy(part) for part in client.train)
                loss = torch.nn.functional.cross_entropy(x @ weight.T + bias, y, reduction="sum")
                total = total + played.posteriors[i].weights[b] * loss
        adam = torch.optim.Adam([weight, bias], lr=0.01)
        total.backward()
        adam.step()
        moved = torch.cat([weight.flatten(), bias]).detach()
        torch.testing.assert_close(federico.bank.rows[b], moved, rtol=0, atol=1e-10)


@pytest.mark.parametrize("neighbors", [0, 2])
def test_strangers_take_part_in_predictions(
    method: Build, blobs: Clients, play: Play, neighbors: int
) -> None:
    federico = method("federico", blobs(SIZES), preset="literal", neighbors=neighbors)
    play(federico, 1)
    assert len(federico.predictors(1).visits) == 25
