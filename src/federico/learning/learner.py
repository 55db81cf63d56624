"""Batched work over visits: whose data, whose model. No method loops over batches, no learner knows a method."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from federico.learning.bank import Bank, Visits
from federico.learning.blueprint import Blueprint
from federico.learning.board import Board
from federico.learning.engines import Engine, Looped, Stacked, chain
from federico.learning.objectives import mixable, objective_for
from federico.learning.optimizers import Optimizer, OptimizerStates
from federico.rng import key, stream
from federico.types import Array, FloatArray, IntArray, Task

Part = Literal["train", "test"]
STACK_NUMBERS = 1 << 19
"""How many numbers a stack of models may hold: beyond that they leave the cache and stacking stops paying."""
STACK_ROWS = 1024
EVALUATION_SAMPLES = 512


@dataclass(frozen=True)
class ClientData:
    """What the learner needs of one client."""

    name: str
    train: tuple[Array, Array]
    test: tuple[Array, Array]


@dataclass(frozen=True)
class Scores:
    """Per client, on its own data: mean loss of the mixture, and accuracy (None for regression)."""

    loss: FloatArray
    accuracy: FloatArray | None

    def take(self, clients: IntArray) -> "Scores":
        """Those of these clients."""
        return Scores(self.loss[clients], None if self.accuracy is None else self.accuracy[clients])


class Learner:
    """Evaluates, trains and scores any list of visits against a bank of models."""

    def __init__(
        self,
        blueprint: Blueprint,
        clients: Sequence[ClientData],
        task: Task,
        optimizer: Optimizer,
        *,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.blueprint = blueprint
        self.task = task
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device(device)
        self.names = [client.name for client in clients]
        self.objective = objective_for(task)
        self.boards: dict[Part, Board] = {
            "train": Board([client.train for client in clients], task, blueprint.dtype, self.device),
            "test": Board([client.test for client in clients], task, blueprint.dtype, self.device),
        }
        self.states = self.new_states()
        self._engine, self._work, self._grad = self._build_engine()

    @property
    def samples(self) -> IntArray:
        """n_i: how many training samples each client has."""
        return self.boards["train"].counts

    def new_states(self) -> OptimizerStates:
        """Optimizer states for this model, none kept yet."""
        return OptimizerStates(self.optimizer.moments, self.blueprint.parameters, self.blueprint.dtype, self.device)

    @torch.no_grad()
    def evaluate(self, bank: Bank, visits: Visits, part: Part = "train") -> FloatArray:
        """The mean loss of each visit over the client's whole part, in evaluation mode."""
        losses = np.zeros(len(visits))
        board = self.boards[part]
        for places, stack in self._stacks(visits, board):
            self._load(bank, stack)
            total = torch.zeros(len(stack), dtype=torch.float64, device=self.device)
            counts = torch.from_numpy(board.counts[stack.clients]).to(self.device)
            for batch in board.batches(stack.clients, [None] * len(stack), self._evaluation_size(stack)):
                loss = self.objective(self._engine.outputs(board.x(batch.index)), board.y[batch.index])
                total[: len(loss)] += torch.where(batch.weights > 0, loss, 0).sum(1, dtype=torch.float64)
            losses[places] = (total / counts).cpu().numpy()
        return losses

    def train(self, bank: Bank, visits: Visits, round_index: int, *, epochs: int = 1, fresh: bool = False) -> Tensor:
        """How far local epochs on the client's data move a copy of each model: [visits, size].

        The optimizer's moments stay with the pair (client, owner) for its next visit, unless `fresh`. A client goes
        through its data in one order per (round, epoch), the same for every model it visits.
        """
        deltas = torch.empty(len(visits), self.blueprint.size, dtype=self.blueprint.dtype, device=self.device)
        states = self.new_states() if fresh else self.states
        counters = bank.counters.clone()
        for places, stack in self._stacks(visits, self.boards["train"]):
            self._load(bank, stack)
            self._run_epochs(stack, states, round_index, epochs)
            if stack.clients[0] == stack.owners[0]:
                counters[bank.places(stack.owners)[0]] = self._engine.counters
            moved = self._work[: len(stack)].sub_(bank.rows[bank.places(stack.owners)])
            deltas[torch.from_numpy(places)] = moved
            self._forget_diverged(stack, moved, states)
        bank.counters = counters  # only an owner's own training moves them, after every visit saw the old ones
        return deltas

    def gradient(self, bank: Bank, visits: Visits, round_index: int) -> Tensor:
        """The gradient of the summed loss over all the client's training data: [visits, size]."""
        board = self.boards["train"]
        gradients = torch.zeros(len(visits), self.blueprint.size, dtype=self.blueprint.dtype, device=self.device)
        for places, stack in self._stacks(visits, board):
            self._load(bank, stack)
            total = torch.zeros(len(stack), self.blueprint.size, dtype=self.blueprint.dtype, device=self.device)
            with torch.random.fork_rng(devices=[]):
                self._seed_dropout(stack, round_index, 0)
                for batch in board.batches(stack.clients, [None] * len(stack), self._evaluation_size(stack)):
                    rows, whole = len(batch.index), (batch.weights > 0).to(total.dtype)
                    self._engine.gradient(board.x(batch.index), board.y[batch.index], whole)
                    total[:rows] += self._grad[:rows]
            gradients[torch.from_numpy(places)] = total
        return gradients

    def descend(self, bank: Bank, owners: IntArray, gradients: Tensor) -> None:
        """One optimizer step at each owner with the gradient gathered for its model, in place."""
        count = self.blueprint.parameters
        moments, steps = self.states.rows([(int(b), int(b)) for b in owners])
        rows = [bank.rows[place, :count] for place in bank.places(owners)]
        self.optimizer.step(rows, list(gradients[:, :count].unbind()), moments, steps)

    @torch.no_grad()
    def score(self, bank: Bank, visits: Visits, weights: FloatArray, part: Part = "test") -> Scores:
        """Loss and accuracy of every client's mixture: visit (i, b) brings model b into i's mixture."""
        mixed = self._mix(bank, visits, weights, self.boards[part])
        board = self.boards[part]
        if self.task == "regression":
            return Scores(_per_client(board, self.objective(mixed, board.y.to(mixed.dtype))), None)
        loss = -mixed.gather(1, board.y[:, None])[:, 0].clamp_min(1e-30).log()
        hit = (mixed.argmax(1) == board.y) & ~mixed.isnan().any(1)
        return Scores(_per_client(board, loss), _per_client(board, hit))

    def _mix(self, bank: Bank, visits: Visits, weights: FloatArray, board: Board) -> Tensor:
        mixed: Tensor | None = None
        for places, stack in self._stacks(visits, board):
            self._load(bank, stack)
            share = torch.from_numpy(weights[places]).to(self.device)
            for batch in board.batches(stack.clients, [None] * len(stack), self._evaluation_size(stack)):
                rows = len(batch.index)
                outputs = mixable(self._engine.outputs(board.x(batch.index)).double(), self.task)
                if mixed is None:
                    mixed = outputs.new_zeros(len(board), outputs.shape[-1])
                real = batch.weights > 0
                part = (outputs * share[:rows, None, None])[real]
                mixed.index_add_(0, batch.index[real], part)
        assert mixed is not None, "there is always a client to score"
        return mixed

    def _run_epochs(self, stack: Visits, states: OptimizerStates, round_index: int, epochs: int) -> None:
        board, count = self.boards["train"], self.blueprint.parameters
        moments, steps = states.rows(stack.pairs)
        params, grads = (rows[: len(stack), :count].unbind() for rows in (self._work, self._grad))
        with torch.random.fork_rng(devices=[]):
            for epoch in range(epochs):
                self._seed_dropout(stack, round_index, epoch)
                orders = self._orders(stack, round_index, epoch)
                for batch in board.batches(stack.clients, orders, self.batch_size):
                    rows = len(batch.index)
                    self._engine.gradient(board.x(batch.index), board.y[batch.index], batch.weights)
                    self.optimizer.step(
                        list(params[:rows]), list(grads[:rows]), [m[:rows] for m in moments], steps[:rows]
                    )

    def _seed_dropout(self, stack: Visits, round_index: int, epoch: int) -> None:
        """Models with dropout run one at a time, so the first client is the only one."""
        name = self.names[int(stack.clients[0])]
        torch.manual_seed(key(self.seed, "dropout", name, round_index, epoch) % 2**63)

    def _orders(self, stack: Visits, round_index: int, epoch: int) -> list[IntArray]:
        """Each client's order of samples."""
        drawn = {
            int(i): stream(self.seed, "batches", self.names[i], round_index, epoch).permutation(self.samples[i])
            for i in np.unique(stack.clients)
        }
        return [drawn[int(i)] for i in stack.clients]

    def _stacks(self, visits: Visits, board: Board) -> Iterator[tuple[IntArray, Visits]]:
        """Cut the visits into stacks that run together, largest clients first so that a stack is hardly ragged."""
        order = np.lexsort((visits.owners, visits.clients, -board.counts[visits.clients]))
        for first in range(0, len(order), len(self._work)):
            places = order[first : first + len(self._work)]
            yield places, visits[places]

    def _load(self, bank: Bank, stack: Visits) -> None:
        places = bank.places(stack.owners)
        torch.index_select(bank.rows, 0, places, out=self._work[: len(stack)])
        # Models with counters run one at a time, so the first owner is the only one.
        self._engine.counters.copy_(bank.counters[places[0]])

    def _forget_diverged(self, stack: Visits, moved: Tensor, states: OptimizerStates) -> None:
        """Moments that met a NaN would spoil every later visit of the pair."""
        for row in (~moved.sum(1).isfinite()).nonzero()[:, 0].tolist():
            states.drop(stack.pairs[row])

    def _evaluation_size(self, stack: Visits) -> int:
        return max(1, EVALUATION_SAMPLES * 16 // max(16, len(stack)))

    def _build_engine(self) -> tuple[Engine, Tensor, Tensor]:
        layers = chain(self.blueprint)
        rows = 1 if layers is None else min(STACK_ROWS, max(1, STACK_NUMBERS // self.blueprint.size))
        work = torch.zeros(rows, self.blueprint.size, dtype=self.blueprint.dtype, device=self.device)
        grad = torch.zeros_like(work)
        if layers is None:
            return Looped(self.blueprint, self.objective, work, grad), work, grad
        return Stacked(layers, self.objective, work, grad), work, grad


def _per_client(board: Board, values: Tensor) -> FloatArray:
    parts = torch.split(values.double(), board.counts.tolist())
    return np.array([float(part.mean()) for part in parts])
