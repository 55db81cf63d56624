"""The learner: evaluates and trains models on clients' data, many visits at a time.

A visit names a client, whose data is used, and an owner, whose model is used. Methods pass lists of
visits and never loop over batches; the learner knows nothing about methods.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from federico import compat
from federico.learning.bank import Bank
from federico.learning.batches import Batch, ClientSamples, Subset
from federico.learning.calibration import Calibration
from federico.learning.client_data import ClientData, TargetUnits
from federico.learning.holding_out import held_out, mixed_order, without_lone_batches
from federico.learning.layout import ModelLayout
from federico.learning.local_training import LocalTraining, ModelsInTraining, Proximal
from federico.learning.metrics import Scores, classification_figures, regression_figures
from federico.learning.mixing import FARTHEST, counted, rest_weighs_more
from federico.learning.objectives import Objective, OwnObjective, mixable, objective_for
from federico.learning.optimizers import Optimizer, OptimizerStates, PairStates
from federico.learning.personal_parts import Learned
from federico.learning.privacy import Noise, PrivacyAccount
from federico.learning.rows import Rows, RowStorage
from federico.learning.training_rules import TrainingRules, class_weight_table
from federico.learning.visits import Visits
from federico.learning.workers import WorkerPool, Workspace
from federico.rng import key, stream
from federico.types import FloatArray, IntArray, Task

S = TypeVar("S")
T = TypeVar("T")

EVALUATION_NUMBERS = 1 << 18
"""Input numbers per evaluation batch; more would push the activations out of the cache."""
EVALUATION_SAMPLES = 512
"""Samples per evaluation batch, however small the samples are."""
CHAIN_NUMBERS = 1 << 20
"""`EVALUATION_NUMBERS` for a single chain of linear layers, where larger products are faster even
if they do not fit into the cache."""
CHAIN_SAMPLES = 2048
"""`EVALUATION_SAMPLES` for a single chain of linear layers."""


@dataclass(frozen=True)
class Stack:
    """Visits that are executed together, and their positions in the full list of visits."""

    positions: IntArray
    visits: Visits


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
        rules: TrainingRules | None = None,
        account: PrivacyAccount | None = None,
    ) -> None:
        """`account`: models that others see are trained with differential privacy, at its cost."""
        self.layout = layout
        self.rules = rules or TrainingRules()
        self.task = task
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device(device)
        self.storage = storage or RowStorage()
        self.names = [client.name for client in clients]
        self.objective = objective_for(task)
        self.outputs_count = outputs
        """How many classes there are, or values to predict."""
        self.guess = self.objective.guess(outputs)
        """The mean loss of a model that has learned nothing."""

        train = [client.train for client in clients]
        test = [client.test for client in clients]
        self.data: dict[Subset, ClientSamples] = {
            "all": ClientSamples.load(train, task, layout.dtype, self.device),
            "test": ClientSamples.load(test, task, layout.dtype, self.device),
        }
        aside = [client.set_aside for client in clients if client.set_aside is not None]
        if aside:
            self.data["set aside"] = ClientSamples.load(aside, task, layout.dtype, self.device)
        self._target_units = None
        if task == "regression":
            self._target_units = TargetUnits.of(clients, outputs)
        are_standardized = all(client.target_spread is not None for client in clients)
        self._farthest = FARTHEST if are_standardized else None
        self.data["train"] = self.data["all"]
        self.account = account
        if account is not None:
            account.open(self.data["all"].counts)
        self._gone_through: IntArray = np.zeros(len(clients), dtype=np.int64)
        self.held_out: IntArray = np.zeros(len(clients), dtype=np.int64)
        """How many samples each client has held out, [clients]."""
        self.backdoor: int | None = None
        """In a simulation of a backdoor, the label that its mark stands for."""
        self.states = self.new_states()
        """The optimizer's state of each (client, owner) pair, kept between rounds."""

        example = self.data["train"].example()
        trained_by: Objective = self.objective
        if self.rules.loss is not None:
            trained_by = OwnObjective(self.rules.loss, task)
        self.workers = WorkerPool(layout, trained_by, example, self.device)
        self._class_weights = self._weights_of_classes()

        # Losses are summed and probabilities mixed in double precision, where the device has it.
        self._precise = torch.float32 if self.device.type == "mps" else torch.float64

    @property
    def samples(self) -> IntArray:
        """n_i: how many training samples each client has."""
        return self.data["train"].counts

    def samples_so_far(self) -> IntArray:
        """How many samples models went through for each client so far, in all visits, [clients].

        A sample counts once for every model that it meets, and in training once an epoch.
        """
        return self._gone_through.copy()

    def new_states(self) -> OptimizerStates:
        """Optimizer states for models of this layout, with no pair in them yet."""
        moments = self.optimizer.moments
        size = self.layout.parameters
        return OptimizerStates(moments, size, self.layout.dtype, self.device, self.storage)

    def new_deltas(self, bank: Bank, count: int) -> Rows:
        """Uninitialised rows for `count` deltas of the bank's models in this round.

        Deltas that will be sent over a network may be stored in files.
        """
        size = bank.row_layout.size
        dtype = self.layout.dtype
        return self.storage.deltas(count, size, dtype=dtype, device=self.device)

    def zeros(self, count: int) -> Tensor:
        """Rows of zeros that are needed in this round only, [count, size]."""
        size = self.layout.size
        dtype = self.layout.dtype
        rows = self.storage.empty(count, size, dtype=dtype, device=self.device, every_round=True)
        return rows.zero_()

    def _weights_of_classes(self) -> Tensor | None:
        """How much the samples of each client and class count, [clients, classes]; None: alike."""
        weights = self.rules.class_weights
        if weights is None:
            return None
        everything = self.data["all"]
        clients = range(len(self.names))
        labels = [everything.targets_of(client).cpu().numpy() for client in clients]
        table = class_weight_table(weights, labels, self.outputs_count)
        return torch.from_numpy(table).to(self.device, self.layout.dtype)

    def hold_out(
        self, fraction: float, *, lone_batches: bool = True, of_all_kinds: bool = False
    ) -> None:
        """Take a fraction of every client's training samples out of training, to judge models by.

        A client that holds out nothing keeps its samples in both parts: they only show whether a
        model's outputs are finite. Without `lone_batches` no client is left with a last batch of
        one sample, on which batch norm could not train: it holds out a few less, or nothing. With
        `of_all_kinds` it holds out about as much of every class, or of low and high values.
        """
        everything = self.data["all"]
        held_counts = held_out(everything.counts, fraction)  # [clients]
        if not lone_batches:
            held_counts = without_lone_batches(everything.counts, held_counts, self.batch_size)

        training: list[IntArray] = []
        judging: list[IntArray] = []
        for place, name in enumerate(self.names):
            count = everything.counts[place]
            held = held_counts[place]
            random = stream(self.seed, "hold out", name)
            if of_all_kinds:
                targets = everything.targets_of(place).cpu().numpy()
                order = mixed_order(random, targets, fraction)
            else:
                order = random.permutation(count)

            # Sorted, so that both parts keep the order in which samples are stored.
            kept = np.sort(order[held:])
            taken = np.sort(order[:held])
            if held == 0:
                # Whether a model's outputs are finite can be seen on any samples.
                taken = kept
            training.append(kept)
            judging.append(taken)

        self.held_out = held_counts
        self.data["train"] = everything.choose(training)
        self.data["not held out"] = self.data["train"]
        if self.account is not None:
            self.account.hold_out(self.data["train"].counts)
        self.data["held_out"] = everything.choose(judging)

    def release_held_out(self) -> None:
        """Give what was held out back to training."""
        self.data["train"] = self.data["all"]

    # Evaluation.

    def evaluate(self, bank: Bank, visits: Visits, subset: Subset = "train") -> FloatArray:
        """The mean loss of each visit's model on the client's samples, [visits].

        Models run in evaluation mode; `subset` says which of the client's samples are used.
        """
        data = self.data[subset]

        @torch.no_grad()
        def measure(workspace: Workspace, stack: Stack) -> Tensor:
            """The summed loss of each visit of a stack."""
            count = len(stack.visits)
            total = torch.zeros(count, dtype=self._precise, device=self.device)
            batches = self._batch_losses(workspace, bank, stack.visits, data)
            for losses in batches:  # [visits that still have samples, samples]
                batch_total = losses.sum(1, dtype=self._precise)
                total[: len(losses)] += batch_total
            return total

        stacks = self._stacks(bank, visits, data)
        totals = self._each(stacks, measure)

        mean_losses = np.zeros(len(visits))
        for stack, total in zip(stacks, totals, strict=True):
            counts = data.counts[stack.visits.clients]
            mean_losses[stack.positions] = total.cpu().numpy() / counts
        return mean_losses

    def losses(self, bank: Bank, visits: Visits, subset: Subset = "train") -> FloatArray:
        """The loss of each visit's model on each of the client's samples, [visits, samples].

        Samples come in the order in which they are stored, followed by zeros for clients that have
        fewer than others. Models run in evaluation mode.
        """
        data = self.data[subset]
        counts = data.counts[visits.clients]
        most = int(counts.max(initial=0))
        all_losses = np.zeros((len(visits), most))

        @torch.no_grad()
        def measure(workspace: Workspace, stack: Stack) -> None:
            """Write the losses of a stack's visits into their rows of `all_losses`."""
            first = 0
            batches = self._batch_losses(workspace, bank, stack.visits, data)
            for losses in batches:  # [visits that still have samples, samples]
                count, length = losses.shape
                positions = stack.positions[:count]
                columns = slice(first, first + length)
                all_losses[positions, columns] = losses.cpu().numpy()
                first += length

        stacks = self._stacks(bank, visits, data)
        self._each(stacks, measure)
        return all_losses

    def outputs(self, bank: Bank, visits: Visits, subset: Subset) -> FloatArray:
        """The outputs of each visit's model for each of the client's samples.

        [visits, samples, outputs]: log-probabilities for classes, values for regression. All
        clients visited must have the same number of samples. Models run in evaluation mode.
        """
        data = self.data[subset]
        stacks = self._stacks(bank, visits, data)

        @torch.no_grad()
        def predict(workspace: Workspace, stack: Stack) -> Tensor:
            """The outputs of a stack's visits, [visits, samples, outputs]."""
            self._load_for_evaluation(workspace, bank, stack.visits)
            parts = []
            for batch in self._evaluation_batches(data, stack.visits):
                outputs = workspace.engine.outputs(data.inputs(batch.index))
                parts.append(outputs.to(self._precise))
            return torch.cat(parts, dim=1)

        gathered: list[FloatArray] = []
        for outputs in self._each(stacks, predict):
            read = outputs
            if self.task == "classification":
                read = torch.log_softmax(outputs, dim=-1)
            gathered.append(read.cpu().double().numpy())

        positions = np.concatenate([stack.positions for stack in stacks])
        in_order = np.argsort(positions)
        all_outputs: FloatArray = np.concatenate(gathered)[in_order]
        return all_outputs

    def score(
        self,
        bank: Bank,
        visits: Visits,
        weights: FloatArray,
        subset: Subset = "test",
        calibration: Calibration | None = None,
    ) -> Scores:
        """All figures of every client's mixture of models on the client's own samples."""
        mixed = self.mix(bank, visits, weights, subset, calibration)
        return self.scores(mixed, subset)

    def combined(self, first: Tensor, second: Tensor, share_of_second: FloatArray) -> Tensor:
        """The predictions of two mixtures for test samples, mixed by each client's share."""
        counts = torch.from_numpy(self.data["test"].counts)
        by_client = torch.from_numpy(share_of_second).to(first)  # [clients]
        share = by_client.repeat_interleave(counts.to(first.device))[:, None]  # [samples, 1]

        # A mixture without a share does not count, not even where it is not a number.
        from_first, first_weight = counted(first, 1 - share)
        from_second, second_weight = counted(second, share)
        whole_weight = (1 - share) + share
        both = from_first + from_second
        return rest_weighs_more(both, first_weight + second_weight, whole_weight)

    def scores(self, mixed: Tensor, subset: Subset = "test") -> Scores:
        """All figures of predictions for every sample of every client, [samples, outputs].

        Targets that were standardised, and predictions of them, are compared in their own units.
        """
        data = self.data[subset]
        if self._target_units is None:
            return Scores(classification_figures(mixed, data.all_targets, data.counts))

        units = self._target_units.repeated(data.counts)
        predicted = units.restored(mixed.cpu())
        targets = units.restored(data.all_targets.cpu())
        return Scores(regression_figures(predicted, targets, units.train_mean, data.counts))

    def trigger_success(self, mixed: Tensor) -> FloatArray:
        """What share of each client's marked samples is taken for what the mark stands for.

        `mixed` are the predictions for the subset "marked". Samples that truly have this label do
        not count; NaN where a client has no others.
        """
        data = self.data["marked"]
        assert self.backdoor is not None, "there is a mark"
        fooled = mixed.argmax(1).eq(self.backdoor)
        others = data.all_targets.ne(self.backdoor)
        shares: list[float] = []
        for start, count in zip(data.starts.tolist(), data.counts.tolist(), strict=True):
            of_client = slice(start, start + count)
            is_fooled = fooled[of_client][others[of_client]]
            shares.append(is_fooled.double().mean().item())
        return np.array(shares)

    def mix(
        self,
        bank: Bank,
        visits: Visits,
        weights: FloatArray,
        subset: Subset = "test",
        calibration: Calibration | None = None,
    ) -> Tensor:
        """The mixed predictions for every sample of every client, [samples, outputs].

        Visit (i, b) adds the model of owner b to the mixture of client i, with its entry of
        `weights`: probabilities of classes, read as `calibration` says, or values in the units of
        the targets in `data`. Where a model has no finite answer for a sample it is left out, and
        the rest weigh more; without any finite answer the prediction is not a number.
        """
        data = self.data[subset]

        @torch.no_grad()
        def predict(workspace: Workspace, stack: Stack) -> list[tuple[Batch, Tensor, Tensor]]:
            """The weighted predictions of a stack's visits, and their weights, by batch."""
            self._load_for_evaluation(workspace, bank, stack.visits)
            stack_weights = torch.from_numpy(weights[stack.positions])
            shares = stack_weights.to(self.device, self._precise)
            stack_calibration = None
            if calibration is not None:
                stack_calibration = calibration.take(stack.positions)
            are_nan = torch.from_numpy(bank.shown.are_nan_elsewhere(stack.visits)).to(self.device)
            parts = []
            for batch in self._evaluation_batches(data, stack.visits):
                inputs = data.inputs(batch.index)
                outputs = workspace.engine.outputs(inputs)
                # [visits that still have samples, samples, outputs]
                outputs[are_nan[: len(outputs)]] = torch.nan
                predictions = mixable(outputs.to(self._precise), self.task, stack_calibration)
                visit_shares = shares[: len(predictions), None, None]
                weighted, counted_shares = counted(predictions, visit_shares, self._farthest)
                whole_shares = visit_shares.expand_as(counted_shares)
                both_shares = torch.cat([counted_shares, whole_shares], dim=-1)
                parts.append((batch, weighted, both_shares))
            return parts

        # Added up in the order of the stacks, so that no sum depends on which thread was first.
        mixed: Tensor | None = None
        weight = torch.zeros((len(data), 2), dtype=self._precise, device=self.device)
        stacks = self._stacks(bank, visits, data)
        for parts in self._each(stacks, predict):
            for batch, weighted, added_weight in parts:
                if mixed is None:
                    shape = len(data), weighted.shape[-1]
                    mixed = torch.zeros(shape, dtype=self._precise, device=self.device)
                data.add_by_sample(mixed, batch, weighted)
                data.add_by_sample(weight, batch, added_weight)
        assert mixed is not None, "every client has a mixture"

        counted_weight, whole_weight = weight[:, :1], weight[:, 1:]
        return rest_weighs_more(mixed, counted_weight, whole_weight)

    def _batch_losses(
        self, workspace: Workspace, bank: Bank, visits: Visits, data: ClientSamples
    ) -> Iterator[Tensor]:
        """The losses of one stack's visits, batch by batch: [visits, samples], 0 for padding."""
        self._load_for_evaluation(workspace, bank, visits)
        for batch in self._evaluation_batches(data, visits):
            inputs = data.inputs(batch.index)
            targets = data.targets(batch.index)
            outputs = workspace.engine.outputs(inputs)
            losses = self.objective(outputs, targets)
            is_sample = batch.weights > 0
            yield torch.where(is_sample, losses, 0)

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
        subset: Subset = "train",
    ) -> Rows:
        """Train a copy of each visited model on a subset of the client's data; returns the deltas.

        The delta of a visit, a row of [visits, size], is the trained copy minus the model. What
        stays with the client moves at once where the visit is to its own model, or to one that
        belongs to nobody.

        The optimizer's moments are kept for the next visit of the same (client, owner) pair, unless
        `fresh`. In each (round, epoch) a client goes through its samples in one order, the same for
        every model it visits. `sample_weights`, laid out as `losses` returns them, multiply each
        sample's loss; a batch's loss is still divided by its number of samples. `proximal` pulls
        every step of a visit towards a given model.
        """
        deltas = self.new_deltas(bank, len(visits))
        states = self.new_states() if fresh else self.states
        training = LocalTraining(round_index, epochs, subset, sample_weights, proximal, bank.shared)
        account = self.account
        if all(bank.is_private(owner) for owner in visits.owners.tolist()):
            account = None  # nobody sees these models
        if account is not None:
            account.charge(visits.clients, self.data[subset].counts[visits.clients])

        def learn(
            workspace: Workspace, work: tuple[Stack, PairStates]
        ) -> tuple[Tensor, Tensor, Learned]:
            """Train a stack's visits; returns which stayed finite, the counters, and what stays."""
            stack, pair_states = work
            stack_training = training.take(stack.positions)
            self._load(workspace, bank, stack.visits)
            if account is None:
                self._run_epochs(workspace, stack.visits, pair_states, stack_training)
            else:
                self._run_private_epochs(
                    workspace, stack.visits, pair_states, stack_training, account
                )

            count = len(stack.visits)
            trained = workspace.work[:count]  # [visits, size]
            # A sum is finite only if all its terms are.
            finite = trained.sum(1).isfinite()
            learned: Learned = []
            if bank.personal is not None:
                learned = bank.personal.learned(stack.visits, trained)
            bank.write_deltas(stack.visits, trained, deltas, stack.positions)
            return finite, workspace.engine.counters.clone(), learned

        # Made here, by one thread: creating the state of a new pair is not thread-safe.
        stacks = self._stacks(bank, visits, self.data[subset], epochs)
        work = [(stack, states.of(stack.visits.pairs)) for stack in stacks]
        done = self._each(work, learn)

        # Only now, so that every visit starts from the same.
        for stack, (finite, counters, learned) in zip(stacks, done, strict=True):
            self._keep_counters(bank, stack.visits, counters)
            if bank.personal is not None:
                bank.personal.move(learned)
            self._forget_diverged(stack.visits, finite, states)
        return deltas

    def gradient(self, bank: Bank, visits: Visits, round_index: int) -> Rows:
        """The gradient of the loss summed over the client's training samples, [visits, size]."""
        data = self.data["train"]
        gradients = self.new_deltas(bank, len(visits))

        def differentiate(workspace: Workspace, stack: Stack) -> None:
            """Write the gradients of a stack's visits into their rows of `gradients`."""
            self._load(workspace, bank, stack.visits)
            models = workspace.work[: len(stack.visits)]
            total = torch.zeros_like(models)  # [visits, size]
            with self._randomness(stack.visits, round_index, epoch=0):
                for batch in self._evaluation_batches(data, stack.visits):
                    inputs = data.inputs(batch.index)
                    targets = data.targets(batch.index)
                    # A sum, not a mean: every sample counts once, and padding not at all.
                    each_once = (batch.weights > 0).to(total.dtype)
                    weights = self._by_class(each_once, stack.visits, targets)
                    workspace.engine.gradient(inputs, targets, weights)

                    # Visits whose clients have no samples left come last, and get nothing more.
                    count = len(batch.weights)
                    total[:count] += workspace.grad[:count]
            gradients.write(stack.positions, total)

        stacks = self._stacks(bank, visits, data)
        self._each(stacks, differentiate)
        return gradients

    def descend(self, bank: Bank, owners: IntArray, gradients: Tensor, round_index: int) -> None:
        """One optimizer step at each owner with the gradient gathered for its model, in place."""
        if len(owners) == 0:
            return  # torch refuses to take a step of no tensors

        own_pairs = [(owner, owner) for owner in owners.tolist()]
        states = self.states.of(own_pairs)

        # The parameters are the first columns of a row; buffers behind them have no gradient.
        size = self.layout.parameters
        places = bank.places(owners)
        parameters = [bank.rows[place, :size] for place in places]
        parameter_gradients = list(gradients[:, :size].unbind())
        factor = self.rules.schedule.factor(round_index)
        rate = self.optimizer.learning_rate * factor
        for row, gradient in zip(parameters, parameter_gradients, strict=True):
            self.rules.prepare_step(row[None], gradient[None], rate)
        self.optimizer.step(parameters, parameter_gradients, states, factor)

    def _run_epochs(
        self, workspace: Workspace, visits: Visits, states: PairStates, training: LocalTraining
    ) -> None:
        """Train the models in the workspace, with one optimizer step of all models per batch."""
        data = self.data[training.subset]
        models = self._models_in_training(workspace, visits, states, training)
        for epoch in range(training.epochs):
            orders = self._orders(visits, data, training.round_index, epoch)
            batches = data.in_orders(
                visits.clients, orders, self.batch_size, training.sample_weights
            )
            generators = self._generators(visits, training.round_index, epoch)
            with self._randomness(visits, training.round_index, epoch):
                for batch in batches:
                    inputs = data.inputs(batch.index)
                    if self.rules.augmentation is not None:
                        inputs = self.rules.augmentation.batch(inputs, generators, self.batch_size)
                    targets = data.targets(batch.index)
                    weights = self._by_class(batch.weights, visits, targets)
                    workspace.engine.gradient(inputs, targets, weights)

                    # Visits whose clients have no samples left come last, and take no step.
                    models.step(len(batch.weights))

    def _models_in_training(
        self, workspace: Workspace, visits: Visits, states: PairStates, training: LocalTraining
    ) -> ModelsInTraining:
        """The models of these visits, which lie in the workspace."""
        return ModelsInTraining(
            workspace,
            len(visits),
            self.layout.parameters,
            self.optimizer,
            self.rules,
            states,
            training,
        )

    def _run_private_epochs(
        self,
        workspace: Workspace,
        visits: Visits,
        states: PairStates,
        training: LocalTraining,
        account: PrivacyAccount,
    ) -> None:
        """`_run_epochs` with differential privacy: samples are drawn, gradients clipped and noisy.

        No two visits share a random number: what they cost together is the sum of their costs.
        """
        data = self.data[training.subset]
        counts = data.counts[visits.clients].tolist()  # largest first
        steps = [account.steps_per_epoch(count) for count in counts]
        models = self._models_in_training(workspace, visits, states, training)
        noises: list[Noise] = []
        for client, owner in visits.pairs:
            noises.append(Noise(account.rules, self.names[client], owner, training.round_index))

        for epoch in range(training.epochs):
            with self._randomness(visits, training.round_index, epoch):
                for step in range(steps[0]):
                    # Who has fewer samples comes last, and takes fewer steps.
                    active = sum(count > step for count in steps)
                    chosen: list[IntArray] = []
                    for noise, count in zip(noises[:active], counts, strict=False):
                        chosen.append(noise.draw(count, account.rate(count)))
                    batch = data.drawn(visits.clients[:active], chosen)
                    inputs = data.inputs(batch.index)
                    targets = data.targets(batch.index)
                    weights = self._by_class(batch.weights, visits, targets)
                    workspace.engine.clipped_gradient(inputs, targets, weights, account.rules.clip)

                    for k in range(active):
                        deviation = account.noise[visits.clients[k]] * account.rules.clip
                        gradient = models.gradients[k]
                        noises[k].add_to(gradient, float(deviation))
                        # By the expected number of samples: the real one is nobody's business.
                        gradient.div_(account.rate(counts[k]) * counts[k])
                    models.step(active)

    def _generators(self, visits: Visits, round_index: int, epoch: int) -> list[torch.Generator]:
        """What each visit draws its augmentation from; the same for all models a client visits."""
        if self.rules.augmentation is None:
            return []
        generators = []
        for client in visits.clients.tolist():
            seed = key(self.seed, "augmentation", self.names[client], round_index, epoch)
            generators.append(torch.Generator().manual_seed(seed % 2**63))
        return generators

    def _by_class(self, weights: Tensor, visits: Visits, targets: Tensor) -> Tensor:
        """The weights of a batch's samples, times those of their classes, [visits, samples]."""
        if self._class_weights is None:
            return weights
        clients = torch.from_numpy(visits.clients[: len(weights)]).to(targets.device)
        table = self._class_weights[clients]  # [visits, classes]
        return weights * table.gather(1, targets)

    def _orders(
        self, visits: Visits, data: ClientSamples, round_index: int, epoch: int
    ) -> list[IntArray]:
        """The order in which each visit goes through the client's samples.

        All visits of a client share one order.
        """
        order_of: dict[int, IntArray] = {}
        for client in np.unique(visits.clients).tolist():
            name = self.names[client]
            count = data.counts[client]
            random = stream(self.seed, "batches", name, round_index, epoch)
            order_of[client] = random.permutation(count)

        clients = visits.clients.tolist()
        return [order_of[client] for client in clients]

    def _randomness(
        self, visits: Visits, round_index: int, epoch: int
    ) -> AbstractContextManager[None]:
        """A context in which models draw random numbers (dropout) from a stream of their own.

        Models that draw random numbers run one at a time, so there is a single client.
        """
        if not self.workers.drawing:
            return nullcontext()

        client = int(visits.clients[0])
        name = self.names[client]
        seed = key(self.seed, "dropout", name, round_index, epoch) % 2**63
        return compat.seeded(seed)

    def _keep_counters(self, bank: Bank, visits: Visits, counters: Tensor) -> None:
        """Store a model's counters after its owner has trained it; other visits do not move them.

        Called after all visits of the round, so that every visit starts from the old counters.
        """
        # Models with counters run one at a time, so there is a single visit.
        if bank.trainer(int(visits.owners[0])) == visits.clients[0]:
            place = bank.places(visits.owners)[0]
            bank.counters[place] = counters

    def _forget_diverged(self, visits: Visits, finite: Tensor, states: OptimizerStates) -> None:
        """Drop the optimizer's state of visits that diverged.

        Moments that contain a NaN would spoil every later visit of the pair.
        """
        pairs = visits.pairs
        diverged = (~finite).nonzero()[:, 0]
        for position in diverged.tolist():
            states.drop(pairs[position])

    # Stacks of visits, and loading models for them.

    def _stacks(
        self, bank: Bank, visits: Visits, data: ClientSamples, epochs: int = 1
    ) -> list[Stack]:
        """Cut visits to models of the bank into stacks that are executed together.

        Clients with the most samples come first, so that clients in one stack have similar numbers
        of samples and few batches are left partly empty. All samples are gone through `epochs`
        times.
        """
        bank.meet(visits)
        counts = data.counts[visits.clients]
        np.add.at(self._gone_through, visits.clients, epochs * counts)
        order = np.lexsort((visits.owners, visits.clients, -counts))

        rows = self.workers.rows_per_stack(len(visits))
        stacks: list[Stack] = []
        for first in range(0, len(order), rows):
            positions = order[first : first + rows]
            stacks.append(Stack(positions, visits[positions]))
        return stacks

    def _each(self, stacks: Sequence[S], execute: Callable[[Workspace, S], T]) -> list[T]:
        """Call execute(workspace, stack) for every stack; results come in the order of stacks."""

        def run(stack: S) -> T:
            with self.workers.workspace() as workspace:
                return execute(workspace, stack)

        return list(self.workers.map(run, stacks))

    def _load(self, workspace: Workspace, bank: Bank, visits: Visits) -> None:
        """Copy the visited models into the workspace."""
        bank.load(visits, workspace.work[: len(visits)])
        workspace.engine.hold(workspace.work)

        # Models with counters run one at a time, so there is a single owner.
        counters = bank.counters[bank.places_met(visits)[0]]
        workspace.engine.counters.copy_(counters)

    def _load_for_evaluation(self, workspace: Workspace, bank: Bank, visits: Visits) -> None:
        """Let the engine work on the visited models, which will not be changed.

        A model that is alone in its stack, and lies in the bank as it is shown, is read without a
        copy.
        """
        lies_whole = bank.personal is None and not bank.shown.are_disguised(visits).any()
        if len(visits) > 1 or not lies_whole:
            self._load(workspace, bank, visits)
            return

        place = int(bank.places_met(visits)[0])
        row = bank.rows[place]
        workspace.engine.hold(row[None])  # [1, size]
        workspace.engine.counters.copy_(bank.counters[place])

    def _evaluation_batches(self, data: ClientSamples, visits: Visits) -> Iterator[Batch]:
        """All samples of these visits in stored order, in batches small enough for the cache."""
        # The size depends on how many models a stack may hold, not on how many it holds: the way
        # visits are cut into stacks must not change a sum.
        models = self.workers.capacity
        size = evaluation_batch(data.input_size, models, chained=self.workers.chained)
        return data.in_stored_order(visits.clients, size)


def evaluation_batch(input_size: int, models: int, *, chained: bool) -> int:
    """Samples per evaluation batch, for inputs of `input_size` numbers and a stack of `models`."""
    numbers = EVALUATION_NUMBERS
    samples = EVALUATION_SAMPLES
    if chained and models == 1:
        numbers = CHAIN_NUMBERS
        samples = CHAIN_SAMPLES
    fitting = numbers // (input_size * models)
    return max(1, min(samples, fitting))
