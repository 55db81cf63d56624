"""What one round of a run did, read from its run directory: the same work for whoever does it
again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.pace import checkpoint_path
from federico.algorithm.posterior import significant
from federico.data.dataset import Samples
from federico.experiment.build import Setup, prepare
from federico.experiment.config import load
from federico.learning.batches import to_input
from federico.learning.layout import ModelLayout
from federico.learning.optimizer_options import Adam
from federico.methods.federico_options import FedericoOptions
from federico.runs import checkpoint
from federico.runs.layout import CellDir
from federico.runs.records import Record

Pair = tuple[int, int]
Data = tuple[Tensor, Tensor]

LEAST_OWN_WEIGHT = float(np.finfo(float).tiny)
"""A peer's own model is trained with this weight at least."""


@dataclass(frozen=True)
class Work:
    """Whose data meets whose model in one round."""

    round_index: int
    visits: list[Pair]
    """(client, owner) of the E-step."""
    trained: dict[Pair, float]
    """Those of the M-step, with the weight w_ib of each."""
    mixtures: list[dict[int, float]]
    """Of each client: the weights of the models it predicts with."""


def work_of(record: Record, names: Sequence[str], w_min: float) -> Work:
    """The visits of a recorded round, as FedeRiCo's defaults choose them."""
    place = {name: i for i, name in enumerate(names)}
    posteriors = [{place[name]: weight for name, weight in row.items()} for row in record.posterior]
    visits = [
        (i, b)
        for i, sampled in enumerate(record.neighbors)
        for b in sorted([i, *(place[name] for name in sampled)])
    ]
    trained = {}
    for i, b in visits:
        weight = posteriors[i][b]
        if i == b:
            # A peer trains its own model however little weight it has.
            trained[i, b] = max(weight, LEAST_OWN_WEIGHT)
        elif weight >= w_min:
            trained[i, b] = weight
    return Work(record.round, visits, trained, [_mixture(row, w_min) for row in posteriors])


def _mixture(row: dict[int, float], w_min: float) -> dict[int, float]:
    weights = significant(np.array(list(row.values())), w_min)
    return {b: float(weight) for b, weight in zip(row, weights, strict=True) if weight > 0}


@dataclass(frozen=True)
class Models:
    """All models between two rounds, and the optimizers' moments of every pair that has some."""

    states: list[dict[str, Tensor]]
    moments: dict[Pair, dict[int, dict[str, Tensor]]]
    """As the state of torch's Adam: parameter number -> its tensors."""
    losses: dict[Pair, float]
    """The latest loss of every pair that has met."""


def read_models(cell: CellDir, round_index: int, layout: ModelLayout) -> Models:
    """From the checkpoint at this round's close."""
    path = checkpoint_path(cell, round_index)
    assert path is not None, "rounds are played again while their checkpoints are kept"
    state = checkpoint.read(path).state
    states = [
        {
            **layout.named(row, torch.empty_like(row)),
            **dict(zip(layout.counters, counters, strict=True)),
        }
        for row, counters in zip(state["bank.rows"], state["bank.counters"], strict=True)
    ]
    pairs = [(int(i), int(b)) for i, b in state["optimizer.pairs"]]
    moments = {
        pair: _moments(layout, rows, step)
        for pair, rows, step in zip(
            pairs, state["optimizer.moments"], state["optimizer.steps"], strict=True
        )
    }
    clients = np.repeat(np.arange(len(states)), state["state.losses.lengths"].numpy()).tolist()
    met = zip(clients, state["state.losses.peers"].tolist(), strict=True)
    return Models(
        states, moments, dict(zip(met, state["state.losses.latest"].tolist(), strict=True))
    )


def _moments(layout: ModelLayout, rows: Tensor, step: Tensor) -> dict[int, dict[str, Tensor]]:
    mean, square = rows
    return {
        number: {
            "step": step.clone(),
            "exp_avg": slot.view(mean).clone(),
            "exp_avg_sq": slot.view(square).clone(),
        }
        for number, slot in enumerate(layout.parameter_slots)
    }


@dataclass(frozen=True)
class Problem:
    """A run's clients and model in plain terms."""

    names: tuple[str, ...]
    layout: ModelLayout
    train: list[Data]
    test: list[Data]
    batch_size: int
    w_min: float
    adam: Adam
    seed: int
    classes: bool

    @property
    def loss(self) -> nn.Module:
        """The mean over a batch."""
        return nn.CrossEntropyLoss() if self.classes else nn.MSELoss()

    def flop(self, work: Work) -> float:
        """The useful arithmetic of E-step and M-step, counted by torch."""
        forward, backward = _flop_per_sample(self.layout.new(), self.train[0][0][:2])
        samples = [len(y) for _, y in self.train]
        measured = sum(samples[i] for i, _ in work.visits)
        trained = sum(samples[i] for i, _ in work.trained)
        return measured * forward + trained * (forward + backward)


def read_problem(run: Path, seed: int = 0) -> Problem:
    """What the run in this folder works on."""
    setup = prepare(load(run / "config.toml"), seed)
    training = setup.experiment.training
    assert isinstance(training.optimizer, Adam), "the others know Adam only"
    options = setup.experiment.method_options("federico")
    assert isinstance(options, FedericoOptions), "the table of that name"
    parts = (
        [_data(client.train, setup) for client in setup.clients],
        [_data(c.test, setup) for c in setup.clients],
    )
    return Problem(
        setup.shares.ids,
        setup.layout,
        *parts,
        training.batch_size,
        options.w_min,
        training.optimizer,
        seed,
        setup.schema.task == "classification",
    )


def _data(samples: Samples, setup: Setup) -> Data:
    """As floats from the start, as plain code has it."""
    dtype = setup.layout.dtype
    y = torch.from_numpy(np.ascontiguousarray(samples.y))
    x = to_input(torch.from_numpy(np.ascontiguousarray(samples.x)), dtype)
    return x, y.to(torch.int64 if setup.schema.task == "classification" else dtype)


def _flop_per_sample(module: nn.Module, two: Tensor) -> tuple[float, float]:
    """(forward, backward); torch leaves out what nobody needs, such as the gradient of the
    input.
    """
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        module.train()(two)
    with FlopCounterMode(display=False) as both:
        module.train()(two).sum().backward()
    return forward.get_total_flops() / 2, (both.get_total_flops() - forward.get_total_flops()) / 2
