"""The same work as others write it.

`plain`: per client, per model, per batch, with a DataLoader and copies of state dicts, as the field does it.
`bare`: the least a careful person would write: data preloaded in channels-last memory, one fused Adam, no frills.
Both train every visit of a list for one epoch from a given model, and return seconds.
"""

import copy
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from federico.learning.bank import Visits
from federico.learning.board import to_input
from federico.learning.learner import Learner

Loss = Callable[[Tensor, Tensor], Tensor]


def loss_of(learner: Learner) -> Loss:
    """The mean loss of a batch, as torch has it."""
    return nn.functional.cross_entropy if learner.task == "classification" else nn.functional.mse_loss


def data_of(learner: Learner, part: str = "train") -> list[tuple[Tensor, Tensor]]:
    """Each client's data as floats."""
    board = learner.boards[part]  # type: ignore[index]
    index = np.split(np.arange(len(board)), np.cumsum(board.counts)[:-1])
    return [(board.x(torch.from_numpy(i)), board.y[torch.from_numpy(i)]) for i in index]


def plain_train(learner: Learner, visits: Visits, states: list[dict[str, Tensor]]) -> float:
    """Train a fresh copy of each visited model with a DataLoader; the changed state dicts are kept."""
    data, loss_of_batch = data_of(learner), loss_of(learner)
    start, results = time.perf_counter(), []
    for client, owner in visits.pairs:
        model = copy.deepcopy(learner.blueprint.template).train()
        model.load_state_dict(copy.deepcopy(states[owner]))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for x, y in DataLoader(TensorDataset(*data[client]), batch_size=learner.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss_of_batch(model(x), y).backward()
            optimizer.step()
        results.append(copy.deepcopy(model.state_dict()))
    return time.perf_counter() - start


def plain_evaluate(learner: Learner, visits: Visits, states: list[dict[str, Tensor]], part: str = "train") -> float:
    """The loss of each visited model with a DataLoader."""
    data, loss_of_batch = data_of(learner, part), loss_of(learner)
    start = time.perf_counter()
    for client, owner in visits.pairs:
        model = copy.deepcopy(learner.blueprint.template).eval()
        model.load_state_dict(states[owner])
        with torch.no_grad():
            sum(
                float(loss_of_batch(model(x), y)) * len(x)
                for x, y in DataLoader(TensorDataset(*data[client]), batch_size=learner.batch_size)
            )
    return time.perf_counter() - start


def bare_round(learner: Learner, visits: Visits) -> tuple[float, float]:
    """(seconds of measuring, seconds of training) every visit with one preloaded model and fused Adam."""
    board, loss_of_batch = learner.boards["train"], loss_of(learner)
    data = [(_fast(x), y) for x, y in data_of(learner)]
    model = copy.deepcopy(learner.blueprint.template)
    model = model.to(memory_format=torch.channels_last) if data[0][0].dim() == 4 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    start = time.perf_counter()
    with torch.no_grad():
        for client, _ in visits.pairs:
            x, y = data[client]
            for first in range(0, int(board.counts[client]), 100):
                loss_of_batch(model.eval()(x[first : first + 100]), y[first : first + 100])
    middle = time.perf_counter()
    for client, _ in visits.pairs:
        x, y = data[client]
        order = torch.randperm(len(x))
        for batch in order.split(learner.batch_size):
            optimizer.zero_grad()
            loss_of_batch(model.train()(x[batch]), y[batch]).backward()
            optimizer.step()
    return middle - start, time.perf_counter() - middle


def _fast(x: Tensor) -> Tensor:
    return to_input(x, torch.float32).contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
