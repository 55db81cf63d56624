"""Batched work over visits: whose data, whose model.

No method loops over batches, no learner knows a method.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from federico import compat
from federico.learning.bank import Bank
from federico.learning.batches import Batch, ClientSamples
from federico.learning.layout import ModelLayout
from federico.learning.objectives import mixable, objective_for
from federico.learning.optimizers import Optimizer, OptimizerStates, PairStates
from federico.learning.rows import Rows, RowStorage
from federico.learning.visits import Visits
from federico.learning.workers import WorkerPool, Workspace
from federico.rng import key, stream
from federico.types import Array, FloatArray, IntArray, Task

DataPart = Literal["train", "validation", "test"]

EVALUATION_NUMBERS = 1 << 18
"""How many input numbers are measured at once; more would push the activations out of the cache."""
EVALUATION_SAMPLES = 512
"""How many samples are measured at once, however small they are."""
CHAIN_NUMBERS = 1 << 20
CHAIN_SAMPLES = 2048
"""The same for a single chain of linear layers: its products are the faster the larger they are, in
cache or not."""
SMALLEST_PROBABILITY = 1e-30
"""A class that a mixture holds to be impossible still has a finite loss."""


@dataclass(frozen=True)
class ClientData:
    """What the learner needs of one client."""

    name: str
    train: tuple[Array, Array]
    test: tuple[Array, Array]


@dataclass(frozen=True)
class Stack:
    """Visits that run together, and their positions in the list they were cut from."""

    positions: IntArray
    visits: Visits


@dataclass(frozen=True)
class Scores:
    """Loss of each client's mixture on its own data, and accuracy (None for regression)."""

    loss: FloatArray
    accuracy: FloatArray | None

    def take(self, clients: IntArray) -> "Scores":
        """The scores of these clients."""
        if self.accuracy is None:
            return Scores(self.loss[clients], None)
        return Scores(self.loss[clients], self.accuracy[clients])


@dataclass(frozen=True)
class Proximal:
    """Pulls training towards other models, as FedProx, Ditto and pFedMe do.

    Every step's gradient gets strength * (parameters - towards) added, the slope of strength / 2
    times the squared distance. Buffers such as batch-norm statistics are left alone.
    """

    strength: float
    towards: Tensor
    """A row for each visit, [visits, size]."""

    def take(self, positions: IntArray) -> "Proximal":
        """The same for these visits alone."""
        index = torch.from_numpy(positions).to(self.towards.device)
        return Proximal(self.strength, self.towards.index_select(0, index))

    def add_to(self, gradients: Tensor, parameters: Tensor) -> None:
        """Add the pull on the first visits to their gradients, in place.

        Both are [visits, parameters].
        """
        visits, size = parameters.shape
        gradients.add_(parameters - self.towards[:visits, :size], alpha=self.strength)


@dataclass(frozen=True)
class LocalTraining:
    """How each visit of one call of `train` is trained."""

    round_index: int
    epochs: int
    sample_weights: FloatArray | None
    proximal: Proximal | None

    def take(self, positions: IntArray) -> "LocalTraining":
        """The same for these visits alone."""
        sample_weights = self.sample_weights
        if sample_weights is not None:
            sample_weights = sample_weights[positions]
        proximal = self.proximal
        if proximal is not None:
            proximal = proximal.take(positions)
        return LocalTraining(self.round_index, self.epochs, sample_weights, proximal)


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
        self.names = [client.name for client in clients]
        self.objective = objective_for(task)
        self.guess = self.objective.guess(outputs)
        """The mean loss of whoever knows nothing."""

        train = [client.train for client in clients]
        test = [client.test for client in clients]
        self.data: dict[DataPart, ClientSamples] = {
            "train": ClientSamples.load(train, task, layout.dtype, self.device),
            "test": ClientSamples.load(test, task, layout.dtype, self.device),
        }
        self.states = self.new_states()
        """What the optimizer keeps of each pair of client and owner between rounds."""
        self.workers = WorkerPool(layout, self.objective, self.data["train"].example(), self.device)

        # Losses are summed and probabilities mixed in double precision, where the device has it.
        self._precise = torch.float32 if self.device.type == "mps" else torch.float64

    @property
    def samples(self) -> IntArray:
        """n_i: how many training samples each client has."""
        return self.data["train"].counts

    def new_states(self) -> OptimizerStates:
        """Optimizer states for this model, of no pair yet."""
        moments = self.optimizer.moments
        size = self.layout.parameters
        return OptimizerStates(moments, size, self.layout.dtype, self.device, self.storage)

    def new_deltas(self, count: int) -> Rows:
        """Room for so many deltas of this round; they wait in files where they will be sent."""
        size, dtype = self.layout.size, self.layout.dtype
        return self.storage.deltas(count, size, dtype=dtype, device=self.device)

    def zeros(self, count: int) -> Tensor:
        """So many rows of zeros that are needed in this round only, [count, size]."""
        size, dtype = self.layout.size, self.layout.dtype
        rows = self.storage.empty(count, size, dtype=dtype, device=self.device, every_round=True)
        return rows.zero_()

    def hold_out(self, fraction: float) -> None:
        """Take samples out of every client's training data.

        They are its validation data from now on.

        A client with a single sample has nothing to spare: it validates on what it trains on.
        """
        data = self.data["train"]
        trained: list[IntArray] = []
        validated: list[IntArray] = []
        for name, count, held in zip(
            self.names, data.counts, held_out(data.counts, fraction), strict=True
        ):
            order = stream(self.seed, "hold out", name).permutation(count)
            kept = np.sort(order[held:])
            trained.append(kept)
            validated.append(np.sort(order[:held]) if held > 0 else kept)

        self.data["train"] = data.choose(trained)
        self.data["validation"] = data.choose(validated)

    # Measuring.

    def evaluate(self, bank: Bank, visits: Visits, part: DataPart = "train") -> FloatArray:
        """The mean loss of each visit over the client's samples of a part, in evaluation mode."""
        data = self.data[part]

        @torch.no_grad()
        def measure(workspace: Workspace, stack: Stack) -> Tensor:
            total = torch.zeros(len(stack.visits), dtype=self._precise, device=self.device)
            for losses in self._batch_losses(workspace, bank, stack.visits, data):
                total[: len(losses)] += losses.sum(1, dtype=self._precise)
            return total

        mean_losses = np.zeros(len(visits))
        stacks = self._stacks(visits, data)
        totals = self.workers.map(measure, stacks)
        for stack, total in zip(stacks, totals, strict=True):
            counts = data.counts[stack.visits.clients]
            mean_losses[stack.positions] = total.cpu().numpy() / counts
        return mean_losses

    def losses(self, bank: Bank, visits: Visits, part: DataPart = "train") -> FloatArray:
        """The loss of each sample of a visit, as stored, in evaluation mode.

        They are [visits, samples], with 0 behind a client's last sample.
        """
        data = self.data[part]
        most = int(data.counts[visits.clients].max(initial=0))
        all_losses = np.zeros((len(visits), most))

        @torch.no_grad()
        def measure(workspace: Workspace, stack: Stack) -> None:
            first = 0
            for losses in self._batch_losses(workspace, bank, stack.visits, data):
                rows, length = losses.shape
                columns = slice(first, first + length)
                all_losses[stack.positions[:rows], columns] = losses.cpu().numpy()
                first += length

        self.workers.map(measure, self._stacks(visits, data))
        return all_losses

    @torch.no_grad()
    def score(
        self, bank: Bank, visits: Visits, weights: FloatArray, part: DataPart = "test"
    ) -> Scores:
        """Loss and accuracy of every client's mixture.

        Visit (i, b) brings model b into i's mixture.
        """
        data = self.data[part]
        targets = data.all_targets
        mixed = self._mix(bank, visits, weights, data)  # [samples, outputs]
        if self.task == "regression":
            losses = self.objective(mixed, targets.to(mixed.dtype))
            return Scores(_mean_by_client(data, losses), None)

        probabilities = mixed.gather(1, targets[:, None])[:, 0]
        losses = -probabilities.clamp_min(SMALLEST_PROBABILITY).log()
        hits = (mixed.argmax(1) == targets) & ~mixed.isnan().any(1)
        return Scores(_mean_by_client(data, losses), _mean_by_client(data, hits))

    def _mix(self, bank: Bank, visits: Visits, weights: FloatArray, data: ClientSamples) -> Tensor:
        """The mixed predictions for every sample, [samples, outputs]."""

        @torch.no_grad()
        def predict(workspace: Workspace, stack: Stack) -> list[tuple[Batch, Tensor]]:
            self._hold_to_measure(workspace, bank, stack.visits)
            shares = torch.from_numpy(weights[stack.positions]).to(self.device, self._precise)
            parts = []
            for batch in self._evaluation_batches(data, stack.visits):
                outputs = workspace.engine.outputs(data.inputs(batch.index))
                predictions = mixable(outputs.to(self._precise), self.task)
                predictions.mul_(shares[: len(predictions), None, None])
                parts.append((batch, predictions))
            return parts

        # Added up in the order of the stacks, whichever thread was first.
        mixed: Tensor | None = None
        for parts in self.workers.map(predict, self._stacks(visits, data)):
            for batch, predictions in parts:
                if mixed is None:
                    shape = len(data), predictions.shape[-1]
                    mixed = torch.zeros(shape, dtype=self._precise, device=self.device)
                data.add_by_sample(mixed, batch, predictions)
        assert mixed is not None, "every client has a mixture"
        return mixed

    def _batch_losses(
        self, workspace: Workspace, bank: Bank, visits: Visits, data: ClientSamples
    ) -> Iterator[Tensor]:
        """The losses of the samples of visits that run together, batch by batch, 0 for padding."""
        self._hold_to_measure(workspace, bank, visits)
        for batch in self._evaluation_batches(data, visits):
            outputs = workspace.engine.outputs(data.inputs(batch.index))
            losses = self.objective(outputs, data.targets(batch.index))
            yield torch.where(batch.weights > 0, losses, 0)

    # Training.

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
        """The deltas, how far local epochs on the client's data move a copy of each model.

        [visits, size].

        The optimizer's moments stay with the pair (client, owner) for its next visit, unless
        `fresh`. A client goes through its data in one order per (round, epoch), the same for every
        model it visits. `sample_weights`, laid out as `losses` gives them, multiply each sample's
        loss; a batch still counts by its number of samples. `proximal` pulls every step towards a
        model given for the visit.
        """
        deltas = self.new_deltas(len(visits))
        states = self.new_states() if fresh else self.states
        training = LocalTraining(round_index, epochs, sample_weights, proximal)

        def learn(workspace: Workspace, work: tuple[Stack, PairStates]) -> tuple[Tensor, Tensor]:
            stack, pair_states = work
            self._load(workspace, bank, stack.visits)
            self._run_epochs(workspace, stack.visits, pair_states, training.take(stack.positions))

            trained = workspace.work[: len(stack.visits)]
            finite = trained.sum(1).isfinite()
            bank.write_deltas(stack.visits.owners, trained, deltas, stack.positions)
            return finite, workspace.engine.counters.clone()

        # States are made here, before threads share them.
        stacks = self._stacks(visits, self.data["train"])
        work = [(stack, states.of(stack.visits.pairs)) for stack in stacks]
        done = self.workers.map(learn, work)

        for stack, (finite, counters) in zip(stacks, done, strict=True):
            self._keep_counters(bank, stack.visits, counters)
            self._forget_diverged(stack.visits, finite, states)
        return deltas

    def gradient(self, bank: Bank, visits: Visits, round_index: int) -> Rows:
        """The gradient of the summed loss over all the client's training data: [visits, size]."""
        data = self.data["train"]
        gradients = self.new_deltas(len(visits))

        def differentiate(workspace: Workspace, stack: Stack) -> None:
            self._load(workspace, bank, stack.visits)
            total = torch.zeros_like(workspace.work[: len(stack.visits)])
            with self._randomness(stack.visits, round_index, epoch=0):
                for batch in self._evaluation_batches(data, stack.visits):
                    inputs, targets = data.inputs(batch.index), data.targets(batch.index)
                    each_once = (batch.weights > 0).to(total.dtype)
                    workspace.engine.gradient(inputs, targets, each_once)
                    rows = len(batch.weights)
                    total[:rows] += workspace.grad[:rows]
            gradients.write(stack.positions, total)

        self.workers.map(differentiate, self._stacks(visits, data))
        return gradients

    def descend(self, bank: Bank, owners: IntArray, gradients: Tensor) -> None:
        """One optimizer step at each owner with the gradient gathered for its model, in place."""
        if len(owners) == 0:  # torch refuses a step of nothing
            return
        size = self.layout.parameters
        own_pairs = [(owner, owner) for owner in owners.tolist()]
        states = self.states.of(own_pairs)
        parameters = [bank.rows[place, :size] for place in bank.places(owners)]
        parameter_gradients = gradients[:, :size].unbind()
        self.optimizer.step(parameters, list(parameter_gradients), states)

    def _run_epochs(
        self, workspace: Workspace, visits: Visits, states: PairStates, training: LocalTraining
    ) -> None:
        """Train the models in the workspace, one step of all of them for each batch."""
        data = self.data["train"]
        size = self.layout.parameters
        work = workspace.work[: len(visits), :size]
        grad = workspace.grad[: len(visits), :size]
        # Views of the rows, made once for all steps.
        parameters = list(work.unbind())
        gradients = list(grad.unbind())

        for epoch in range(training.epochs):
            orders = self._orders(visits, training.round_index, epoch)
            batches = data.in_orders(
                visits.clients, orders, self.batch_size, training.sample_weights
            )
            with self._randomness(visits, training.round_index, epoch):
                for batch in batches:
                    inputs, targets = data.inputs(batch.index), data.targets(batch.index)
                    workspace.engine.gradient(inputs, targets, batch.weights)

                    # Clients that have run out of samples come last, and take no step.
                    rows = len(batch.weights)
                    if training.proximal is not None:
                        training.proximal.add_to(grad[:rows], work[:rows])
                    self.optimizer.step(parameters[:rows], gradients[:rows], states.first(rows))

    def _orders(self, visits: Visits, round_index: int, epoch: int) -> list[IntArray]:
        """In which order each visit goes through the client's samples: one order per client."""
        by_client: dict[int, IntArray] = {}
        for client in np.unique(visits.clients).tolist():
            random = stream(self.seed, "batches", self.names[client], round_index, epoch)
            by_client[client] = random.permutation(self.samples[client])
        return [by_client[client] for client in visits.clients.tolist()]

    def _randomness(
        self, visits: Visits, round_index: int, epoch: int
    ) -> AbstractContextManager[None]:
        """Dropout draws from a stream of its own.

        Models that draw run one at a time: the first client is the only.
        """
        if not self.workers.drawing:
            return nullcontext()
        name = self.names[int(visits.clients[0])]
        return compat.seeded(key(self.seed, "dropout", name, round_index, epoch) % 2**63)

    def _keep_counters(self, bank: Bank, visits: Visits, counters: Tensor) -> None:
        """Only an owner's own training moves its counters, after every visit saw the old ones."""
        if visits.clients[0] == visits.owners[0]:
            bank.counters[bank.places(visits.owners)[0]] = counters

    def _forget_diverged(self, visits: Visits, finite: Tensor, states: OptimizerStates) -> None:
        """Moments that met a NaN would spoil every later visit of the pair."""
        pairs = visits.pairs
        for row in (~finite).nonzero()[:, 0].tolist():
            states.drop(pairs[row])

    # Stacks of visits, and the models in hand.

    def _stacks(self, visits: Visits, data: ClientSamples) -> list[Stack]:
        """Cut the visits into stacks, largest clients first so that a stack is hardly ragged."""
        order = np.lexsort((visits.owners, visits.clients, -data.counts[visits.clients]))
        rows = self.workers.rows_per_stack(len(visits))
        stacks = []
        for first in range(0, len(order), rows):
            positions = order[first : first + rows]
            stacks.append(Stack(positions, visits[positions]))
        return stacks

    def _load(self, workspace: Workspace, bank: Bank, visits: Visits) -> None:
        """Copy the visited models into the workspace."""
        places = bank.places(visits.owners)
        torch.index_select(bank.rows, 0, places, out=workspace.work[: len(visits)])
        workspace.engine.hold(workspace.work)
        # Models with counters run one at a time, so the first owner is the only one.
        workspace.engine.counters.copy_(bank.counters[places[0]])

    def _hold_to_measure(self, workspace: Workspace, bank: Bank, visits: Visits) -> None:
        """Take the visited models in hand.

        One that is alone in its stack is measured where it lies.
        """
        if len(visits) > 1:
            self._load(workspace, bank, visits)
            return
        place = int(bank.places(visits.owners)[0])
        workspace.engine.hold(bank.rows[place][None])
        workspace.engine.counters.copy_(bank.counters[place])

    def _evaluation_batches(self, data: ClientSamples, visits: Visits) -> Iterator[Batch]:
        """All samples of these visits as stored, in batches that stay in the cache."""
        # By what a stack may hold, not by what it holds: how visits are cut into stacks must not
        # change a sum.
        models = self.workers.capacity
        size = evaluation_batch(data.input_size, models, chained=self.workers.chained)
        return data.in_stored_order(visits.clients, size)


def evaluation_batch(input_size: int, models: int, *, chained: bool) -> int:
    """How many samples of `input_size` numbers are measured at once by each of so many models."""
    numbers = EVALUATION_NUMBERS
    samples = EVALUATION_SAMPLES
    if chained and models == 1:
        numbers = CHAIN_NUMBERS
        samples = CHAIN_SAMPLES
    fitting = numbers // (input_size * models)
    return max(1, min(samples, fitting))


def held_out(samples: IntArray, fraction: float) -> IntArray:
    """How many of its samples each client holds out: at least one, but never the last."""
    wanted = np.maximum(np.rint(fraction * samples), 1)
    to_spare = np.maximum(samples - 1, 0)
    held: IntArray = np.minimum(wanted, to_spare).astype(np.int64)
    return held


def _mean_by_client(data: ClientSamples, values: Tensor) -> FloatArray:
    """The mean over each client's samples."""
    by_client = torch.split(values.cpu().double(), data.counts.tolist())
    return np.array([float(part.mean()) for part in by_client])
