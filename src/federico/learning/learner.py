"""Batched work over visits: whose data, whose model. No method loops over batches, no learner knows a method."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from federico import compat
from federico.learning.bank import Bank
from federico.learning.batches import Batch, ClientTensors
from federico.learning.layout import ModelLayout
from federico.learning.objectives import mixable, objective_for
from federico.learning.optimizers import Optimizer, OptimizerStates, Tensors
from federico.learning.rows import Rows, RowStorage
from federico.learning.visits import Visits
from federico.learning.workers import WorkerPool, Workspace
from federico.rng import key, stream
from federico.types import Array, FloatArray, IntArray, Task

Part = Literal["train", "validation", "test"]
Moments = tuple[list[Tensors], Tensors]
"""Of some pairs: the rows of each moment, and the steps taken."""
EVALUATION_NUMBERS = 1 << 18
"""How many input numbers are measured at once; more would push the activations out of the cache."""
EVALUATION_SAMPLES = 512
CHAIN_NUMBERS, CHAIN_SAMPLES = 1 << 20, 2048
"""The same for a single chain of linear layers: its products are the faster the larger they are, in cache or not."""


@dataclass(frozen=True)
class ClientData:
    """What the learner needs of one client."""

    name: str
    train: tuple[Array, Array]
    test: tuple[Array, Array]


@dataclass(frozen=True)
class Stack:
    """Visits that run together, and their places in the list they were cut from."""

    places: IntArray
    visits: Visits


@dataclass(frozen=True)
class Scores:
    """Per client, on its own data: mean loss of the mixture, and accuracy (None for regression)."""

    loss: FloatArray
    accuracy: FloatArray | None

    def take(self, clients: IntArray) -> "Scores":
        """Those of these clients."""
        return Scores(self.loss[clients], None if self.accuracy is None else self.accuracy[clients])


@dataclass(frozen=True)
class Proximal:
    """Pulls training towards other models, as FedProx, Ditto and pFedMe do.

    Every step's gradient gets strength * (parameters - towards) added, the slope of strength / 2 times the squared
    distance. Buffers such as batch-norm statistics are left alone.
    """

    strength: float
    towards: Tensor
    """A row for each visit, [visits, size]."""

    def take(self, which: IntArray) -> "Proximal":
        """The same for these visits alone."""
        places = torch.from_numpy(which).to(self.towards.device)
        return Proximal(self.strength, self.towards.index_select(0, places))

    def add_to(self, gradients: Tensor, parameters: Tensor) -> None:
        """Add the pull on the first visits to their gradients, in place; both are [visits, parameters]."""
        count, width = parameters.shape
        gradients.add_(parameters - self.towards[:count, :width], alpha=self.strength)


class Learner:
    """Evaluates, trains and scores any list of visits against a bank of models."""

    def __init__(
        self,
        layout: ModelLayout,
        clients: Sequence[ClientData],
        task: Task,
        outputs: int,
        optimizer: Optimizer,
        *,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        storage: RowStorage | None = None,
    ) -> None:
        self.layout = layout
        self.task = task
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device(device)
        self.storage = storage or RowStorage()
        # Losses are summed and probabilities mixed in double precision, where the device has it.
        self._precise = torch.float32 if self.device.type == "mps" else torch.float64
        self.names = [client.name for client in clients]
        self.objective = objective_for(task)
        self.guess = self.objective.guess(outputs)
        self.boards: dict[Part, ClientTensors] = {
            "train": ClientTensors(
                [client.train for client in clients], task, layout.dtype, self.device
            ),
            "test": ClientTensors(
                [client.test for client in clients], task, layout.dtype, self.device
            ),
        }
        self.states = self.new_states()
        self._workers = WorkerPool(
            layout, self.objective, self.boards["train"].first(), self.device
        )

    @property
    def samples(self) -> IntArray:
        """n_i: how many training samples each client has."""
        return self.boards["train"].counts

    def new_states(self) -> OptimizerStates:
        """Optimizer states for this model, none kept yet."""
        count, dtype = self.layout.parameters, self.layout.dtype
        return OptimizerStates(self.optimizer.moments, count, dtype, self.device, self.storage)

    def hold_out(self, fraction: float) -> None:
        """Take samples out of every client's training part; they are the part `validation` from now on.

        A client with a single sample has nothing to spare: it validates on what it trains on.
        """
        board = self.boards["train"]
        orders = [
            stream(self.seed, "hold out", n).permutation(c)
            for n, c in zip(self.names, board.counts, strict=True)
        ]
        cuts = [
            np.split(order, [k])
            for order, k in zip(orders, held_out(board.counts, fraction), strict=True)
        ]
        self.boards["train"] = board.choose([np.sort(kept) for _, kept in cuts])
        self.boards["validation"] = board.choose(
            [np.sort(held if len(held) else kept) for held, kept in cuts]
        )

    def evaluate(self, bank: Bank, visits: Visits, part: Part = "train") -> FloatArray:
        """The mean loss of each visit over the client's whole part, in evaluation mode."""
        board = self.boards[part]

        @torch.no_grad()
        def measure(workspace: Workspace, stack: Stack) -> Tensor:
            total = torch.zeros(len(stack.visits), dtype=self._precise, device=self.device)
            for loss in self._measured(workspace, bank, stack, board):
                total[: len(loss)] += loss.sum(1, dtype=self._precise)
            return total

        losses = np.zeros(len(visits))
        stacks = self._stacks(visits, board)
        for stack, total in zip(stacks, self._workers.map(measure, stacks), strict=True):
            losses[stack.places] = total.cpu().numpy() / board.counts[stack.visits.clients]
        return losses

    def losses(self, bank: Bank, visits: Visits, part: Part = "train") -> FloatArray:
        """The loss of each sample of a visit, as stored, in evaluation mode: [visits, samples], 0 behind the last."""
        board = self.boards[part]
        losses = np.zeros((len(visits), int(board.counts[visits.clients].max(initial=0))))

        @torch.no_grad()
        def measure(workspace: Workspace, stack: Stack) -> None:
            first = 0
            for loss in self._measured(workspace, bank, stack, board):
                losses[stack.places[: len(loss)], first : first + loss.shape[1]] = (
                    loss.cpu().numpy()
                )
                first += loss.shape[1]

        self._workers.map(measure, self._stacks(visits, board))
        return losses

    def train(
        self,
        bank: Bank,
        visits: Visits,
        round_index: int,
        *,
        epochs: int = 1,
        fresh: bool = False,
        sample_weights: FloatArray | None = None,
        proximal: Proximal | None = None,
    ) -> Rows:
        """How far local epochs on the client's data move a copy of each model: [visits, size].

        The optimizer's moments stay with the pair (client, owner) for its next visit, unless `fresh`. A client goes
        through its data in one order per (round, epoch), the same for every model it visits. `sample_weights`, laid
        out as `losses` gives them, multiply each sample's loss; a batch still counts by its number of samples.
        `proximal` pulls every step towards a model given for the visit.
        """
        deltas = self.new_deltas(len(visits))
        states = self.new_states() if fresh else self.states

        def learn(workspace: Workspace, job: tuple[Stack, Moments]) -> tuple[Tensor, Tensor]:
            stack, moments = job
            self._load(workspace, bank, stack.visits)
            scale = None if sample_weights is None else sample_weights[stack.places]
            pull = None if proximal is None else proximal.take(stack.places)
            self._run_epochs(workspace, stack.visits, moments, round_index, epochs, scale, pull)
            trained = workspace.work[: len(stack.visits)]
            finite = trained.sum(1).isfinite()
            bank.write_deltas(stack.visits.owners, trained, deltas, stack.places)
            return finite, workspace.engine.counters.clone()

        stacks = self._stacks(visits, self.boards["train"])
        done = self._workers.map(
            learn, [(stack, states.rows(stack.visits.pairs)) for stack in stacks]
        )
        for stack, (finite, counters) in zip(stacks, done, strict=True):
            self._keep_counters(bank, stack.visits, counters)
            self._forget_diverged(stack.visits, finite, states)
        return deltas

    def gradient(self, bank: Bank, visits: Visits, round_index: int) -> Rows:
        """The gradient of the summed loss over all the client's training data: [visits, size]."""
        board = self.boards["train"]
        gradients = self.new_deltas(len(visits))

        def differentiate(workspace: Workspace, stack: Stack) -> None:
            self._load(workspace, bank, stack.visits)
            total = torch.zeros_like(workspace.work[: len(stack.visits)])
            with self._randomness(stack.visits, round_index, 0):
                for batch in self._whole(board, stack.visits):
                    rows, whole = len(batch.weights), (batch.weights > 0).to(total.dtype)
                    workspace.engine.gradient(
                        board.x(batch.index), board.targets(batch.index), whole
                    )
                    total[:rows] += workspace.grad[:rows]
            gradients.write(stack.places, total)

        self._workers.map(differentiate, self._stacks(visits, board))
        return gradients

    def descend(self, bank: Bank, owners: IntArray, gradients: Tensor) -> None:
        """One optimizer step at each owner with the gradient gathered for its model, in place."""
        if not len(owners):  # torch refuses a step of nothing
            return
        count = self.layout.parameters
        moments, steps = self.states.rows([(int(b), int(b)) for b in owners])
        rows = [bank.rows[place, :count] for place in bank.places(owners)]
        self.optimizer.step(rows, list(gradients[:, :count].unbind()), moments, steps)

    def zeros(self, count: int) -> Tensor:
        """So many rows of zeros that are needed in this round only, [count, size]."""
        size, dtype = self.layout.size, self.layout.dtype
        rows = self.storage.empty(count, size, dtype=dtype, device=self.device, every_round=True)
        return rows.zero_()

    def new_deltas(self, count: int) -> Rows:
        """Room for so many deltas of this round; they wait in files where they will be sent."""
        size, dtype = self.layout.size, self.layout.dtype
        return self.storage.deltas(count, size, dtype=dtype, device=self.device)

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

    def _mix(self, bank: Bank, visits: Visits, weights: FloatArray, board: ClientTensors) -> Tensor:
        """The mixed predictions for every sample of the board, [samples, outputs]."""

        @torch.no_grad()
        def predict(workspace: Workspace, stack: Stack) -> list[tuple[Batch, Tensor]]:
            self._show(workspace, bank, stack.visits)
            share = torch.from_numpy(weights[stack.places]).to(self.device, self._precise)[
                :, None, None
            ]
            parts = []
            for batch in self._whole(board, stack.visits):
                outputs = mixable(
                    workspace.engine.outputs(board.x(batch.index)).to(self._precise), self.task
                )
                parts.append((batch, outputs.mul_(share[: len(outputs)])))
            return parts

        parts = [
            part
            for parts in self._workers.map(predict, self._stacks(visits, board))
            for part in parts
        ]
        mixed = torch.zeros(
            len(board), parts[0][1].shape[-1], dtype=self._precise, device=self.device
        )
        for batch, part in parts:
            board.add(mixed, batch, part)
        return mixed

    def _measured(
        self, workspace: Workspace, bank: Bank, stack: Stack, board: ClientTensors
    ) -> Iterator[Tensor]:
        """The losses of the stack's samples batch by batch, 0 for padding."""
        self._show(workspace, bank, stack.visits)
        for batch in self._whole(board, stack.visits):
            loss = self.objective(
                workspace.engine.outputs(board.x(batch.index)), board.targets(batch.index)
            )
            yield torch.where(batch.weights > 0, loss, 0)

    def _run_epochs(
        self,
        workspace: Workspace,
        visits: Visits,
        moments: Moments,
        round_index: int,
        epochs: int,
        scale: FloatArray | None,
        proximal: Proximal | None,
    ) -> None:
        board, count = self.boards["train"], self.layout.parameters
        params, grads = (
            rows[: len(visits), :count].unbind() for rows in (workspace.work, workspace.grad)
        )
        for epoch in range(epochs):
            orders = self._orders(visits, round_index, epoch)
            with self._randomness(visits, round_index, epoch):
                for batch in board.batches(visits.clients, orders, self.batch_size, scale):
                    n = len(batch.weights)
                    workspace.engine.gradient(
                        board.x(batch.index), board.targets(batch.index), batch.weights
                    )
                    if proximal is not None:
                        proximal.add_to(workspace.grad[:n, :count], workspace.work[:n, :count])
                    self.optimizer.step(
                        list(params[:n]),
                        list(grads[:n]),
                        [rows[:n] for rows in moments[0]],
                        moments[1][:n],
                    )

    @contextmanager
    def _randomness(self, visits: Visits, round_index: int, epoch: int) -> Iterator[None]:
        """Dropout draws from a stream of its own. Models that draw run one at a time: the first client is the only."""
        if self._workers.threads > 1:
            yield
            return
        name = self.names[int(visits.clients[0])]
        with compat.seeded(key(self.seed, "dropout", name, round_index, epoch) % 2**63):
            yield

    def _orders(self, visits: Visits, round_index: int, epoch: int) -> list[IntArray]:
        """Each client's order of samples."""
        drawn = {
            int(i): stream(self.seed, "batches", self.names[i], round_index, epoch).permutation(
                self.samples[i]
            )
            for i in np.unique(visits.clients)
        }
        return [drawn[int(i)] for i in visits.clients]

    def _stacks(self, visits: Visits, board: ClientTensors) -> list[Stack]:
        """Cut the visits into stacks that run together, largest clients first so that a stack is hardly ragged."""
        order = np.lexsort((visits.owners, visits.clients, -board.counts[visits.clients]))
        rows = self._workers.rows_per_stack(len(visits))
        cuts = [order[first : first + rows] for first in range(0, len(order), rows)]
        return [Stack(places, visits[places]) for places in cuts]

    def _load(self, workspace: Workspace, bank: Bank, visits: Visits) -> None:
        places = bank.places(visits.owners)
        torch.index_select(bank.rows, 0, places, out=workspace.work[: len(visits)])
        workspace.engine.hold(workspace.work)
        # Models with counters run one at a time, so the first owner is the only one.
        workspace.engine.counters.copy_(bank.counters[places[0]])

    def _show(self, workspace: Workspace, bank: Bank, visits: Visits) -> None:
        """Load the models to be measured; one that is alone in its stack is measured where it lies."""
        if len(visits) > 1:
            self._load(workspace, bank, visits)
            return
        place = bank.places(visits.owners)
        workspace.engine.hold(bank.rows[int(place[0])][None])
        workspace.engine.counters.copy_(bank.counters[place[0]])

    def _keep_counters(self, bank: Bank, visits: Visits, counters: Tensor) -> None:
        """Only an owner's own training moves its counters, after every visit saw the old ones."""
        if visits.clients[0] == visits.owners[0]:
            bank.counters[bank.places(visits.owners)[0]] = counters

    def _forget_diverged(self, visits: Visits, finite: Tensor, states: OptimizerStates) -> None:
        """Moments that met a NaN would spoil every later visit of the pair."""
        for row in (~finite).nonzero()[:, 0].tolist():
            states.drop(visits.pairs[row])

    def _whole(self, board: ClientTensors, visits: Visits) -> Iterator[Batch]:
        """All samples of these visits as stored, in batches that stay in the cache."""
        # By what a stack may hold, not by what it holds: how visits are cut into stacks must not change a sum.
        size = evaluation_batch(board.width, self._workers.capacity, chained=self._workers.chained)
        return board.whole(visits.clients, size)


def evaluation_batch(width: int, models: int, *, chained: bool) -> int:
    """How many samples of this many numbers are measured at once, for each of so many models, chains or not."""
    alone = chained and models == 1
    numbers, samples = (
        (CHAIN_NUMBERS, CHAIN_SAMPLES) if alone else (EVALUATION_NUMBERS, EVALUATION_SAMPLES)
    )
    return max(1, min(samples, numbers // (width * models)))


def held_out(samples: IntArray, fraction: float) -> IntArray:
    """How many of its samples each client holds out: at least one, but never the last."""
    held: IntArray = np.minimum(
        np.maximum(np.rint(fraction * samples), 1), np.maximum(samples - 1, 0)
    ).astype(np.int64)
    return held


def _per_client(board: ClientTensors, values: Tensor) -> FloatArray:
    parts = torch.split(values.cpu().double(), board.counts.tolist())
    return np.array([float(part.mean()) for part in parts])
