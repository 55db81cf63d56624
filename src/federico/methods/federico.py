"""FedeRiCo: federating with the right collaborators (Sui et al. 2022), Algorithm 1.

`federico.algorithm.reference` is the same method as plain loops; a test holds the two together.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from federico.algorithm.losses import LossTracker, Tracking
from federico.algorithm.posterior import posterior, significant
from federico.algorithm.sampling import (
    Coin,
    EpsilonGreedy,
    Everyone,
    Sampler,
    Strangers,
    Uniform,
    View,
)
from federico.errors import ConfigError
from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.visits import Visits
from federico.methods.averaging import Buffers, average_into, finite
from federico.methods.context import timed
from federico.methods.method import (
    Method,
    Mixtures,
    Needs,
    Posterior,
    Round,
    check_neighbors,
    pull_neighbors,
)
from federico.methods.model_owners import ModelOwner, one_per_client
from federico.methods.state import PerPair
from federico.options import Options
from federico.rng import stream
from federico.types import FloatArray, IntArray

LITERAL: dict[str, Any] = {
    "loss": "sum",
    "strangers": "literal",
    "solo_rounds": 0,
    "m_step": "gradient",
    "w_min": 0.0,
    "worse_than_guess": "tracked",
}
"""Algorithm 1 as printed, where the defaults differ from it."""
ROUNDING = 1e-6
"""Relative tolerance of the bound on losses: a model that gives all classes the same probability is
not worse than a guess because of rounding."""


class FedericoOptions(Options):
    """Options of FedeRiCo.

    `docs/explanation-open-points.md` gives the reasons for the defaults.
    """

    preset: Literal["federico", "literal"] = "federico"
    """`literal` sets the options you do not set yourself to Algorithm 1 as printed."""
    neighbors: NonNegativeInt = 3
    """M: how many other peers each peer visits per round; 0 is training alone, K-1 is all-to-all.
    If there are fewer others than the default, it means all of them."""
    sampler: Literal["epsilon_greedy", "uniform", "everyone"] = "epsilon_greedy"
    """How neighbors are chosen; `everyone` takes all others whatever `neighbors` says."""
    epsilon: float = Field(default=0.3, ge=0, le=1)
    """Probability that a peer samples uniformly instead of taking the best."""
    coin: Coin = "per_round"
    """One epsilon coin per peer and round, or one per neighbor."""
    strangers: Strangers = "optimistic"
    """Peers never evaluated: tried once each (`optimistic`), reached through epsilon only
    (`cautious`, for hundreds of peers), or loss 0 in the posterior too (`literal`)."""
    tracking: Tracking = "ema"
    """How losses are tracked: moving average, or accumulated over rounds."""
    momentum: float = Field(default=0.6, gt=0, le=1)
    """beta: weight of the new loss in the moving average."""
    debias: bool = False
    """Correct the moving average for its start at 0."""
    loss: Literal["mean", "sum"] = "mean"
    """Whether the posterior uses the mean or the sum of a peer's losses over its samples."""
    temperature: PositiveFloat = 1.0
    """Divides the tracked losses before the softmax; higher spreads the posterior."""
    worse_than_guess: Literal["ignored", "tracked"] = "ignored"
    """What to do with a model whose mean loss is above ln C, the loss of giving all C classes the
    same probability. `ignored`: it gets no weight until a later visit finds it better, and its loss
    is tracked as ln C; if all models are worse, a peer's own gets all the weight. `tracked`: its
    loss is tracked like any other. No effect in regression."""
    w_min: float = Field(default=1e-4, ge=0, lt=1)
    """Posterior weights below this train nothing, send nothing and predict nothing; but with
    `m_step = "epochs"` a peer's own model is always trained."""
    solo_rounds: NonNegativeInt = 1
    """Initial rounds in which every peer trains alone."""
    anchor: float = Field(default=0.0, ge=0, le=1)
    """Minimum share of a peer's own data in the update of its own model."""
    start: Literal["independent", "same"] = "independent"
    """Whether every peer starts from its own random model or all from one."""
    m_step: Literal["epochs", "gradient"] = "epochs"
    """Send the delta of local epochs, or one full-data gradient to an optimizer at the owner."""
    optimizer_state: Literal["kept", "fresh"] = "kept"
    """Whether a visitor keeps its optimizer's moments for a model between its visits."""
    buffers: Buffers = "average"
    """Batch-norm statistics: averaged like parameters, moved by the owner only, or frozen."""

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        """Fill in the preset's values for options that are not set."""
        if isinstance(values, Mapping) and values.get("preset") == "literal":
            return {**LITERAL, **values}
        return values

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse options that contradict each other."""
        if self.debias and self.tracking == "accumulated":
            raise ValueError("debias corrects a moving average: it needs tracking = 'ema'")
        if self.m_step == "gradient" and (self.anchor > 0 or self.optimizer_state == "fresh"):
            raise ValueError(
                "anchor and optimizer_state = 'fresh' are about local epochs: "
                "they need m_step = 'epochs'"
            )
        return self


class Federico(Method):
    """Every peer finds its collaborators by measuring their models on its own data."""

    name = "federico"
    title = "FedeRiCo"
    summary = (
        "Decentralised: each peer visits a few others "
        "and predicts with the models its posterior trusts."
    )
    options = FedericoOptions
    opt: FedericoOptions

    losses = PerPair[LossTracker]()
    """l_ij and L_ij of each hosted peer i, for the peers j it has met."""

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A model for each peer."""
        return one_per_client(clients, same_start=options.start == "same")

    @classmethod
    def check(cls, options: FedericoOptions, clients: int, layout: ModelLayout) -> None:
        """Neighbors must exist, and a gradient must be all there is to learn."""
        if options.sampler != "everyone":
            default = FedericoOptions().neighbors
            check_neighbors(cls.name, options.neighbors, default, clients)
        if options.m_step == "gradient" and layout.size > layout.parameters:
            raise ConfigError(
                "federico.m_step = 'gradient': it cannot train float buffers "
                "(batch-norm statistics); use 'epochs'"
            )

    @classmethod
    def memory(cls, options: FedericoOptions, clients: int, rounds: int) -> Needs:
        """Every peer trains what it visits, and may keep an optimizer for every model it meets."""
        sampling_rounds = max(0, rounds - options.solo_rounds)
        visited = 0
        if sampling_rounds > 0:
            visited = clients * _neighbors(options, clients)
        visits = clients + visited

        if options.m_step == "gradient":
            # Beside the gradients sent, their sum at each owner.
            return Needs(models=clients, updates=visits + clients, pairs=clients)
        if options.optimizer_state == "fresh":
            return Needs(models=clients, updates=visits, pairs=0, fresh=visits)

        # Every visit may be to a model not met before, until all have met.
        meetings = visited * _meeting_rounds(options, sampling_rounds)
        all_meetings = clients * (clients - 1)
        met = min(all_meetings, meetings)
        return Needs(models=clients, updates=visits, pairs=clients + met)

    def start(self) -> None:
        """No peer has evaluated any model yet."""
        neighbors = _neighbors(self.opt, self.context.count)
        self.sampler = _sampler(self.opt, neighbors)
        self.losses = {}
        self.posteriors: dict[int, Posterior] = {}
        """w_i of each hosted peer, computed from its tracked losses."""

        nobody = np.empty(0, np.int64)
        no_weights = np.empty(0)
        for i in self.context.hosted.tolist():
            self.losses[i] = self._new_tracker(i)
            self.posteriors[i] = Posterior(nobody, no_weights)

    def resumed(self) -> None:
        """Compute the posteriors again: they are not saved, but follow from the tracked losses."""
        for i in self.losses:
            self.posteriors[i] = self._posterior(i)

    def round(self, round_index: int) -> Round:
        """Algorithm 1, one pass of its outer loop, for all peers at once."""
        neighbors = self.sample(round_index)
        visits = pull_neighbors(self, round_index, neighbors)
        self.e_step(visits)
        updates = self.m_step(visits, round_index)
        self.push_updates(round_index, updates)
        del updates  # free the memory of what was sent before adding up what has arrived
        self.update(self.collect(round_index))
        return Round(neighbors, list(self.posteriors.values()))

    @timed("sample")
    def sample(self, round_index: int) -> list[IntArray]:
        """Each peer's neighbors, chosen by what it knew before this round; none in a solo round."""
        if round_index <= self.opt.solo_rounds:
            nobody = np.empty(0, np.int64)
            return [nobody for _ in self.losses]

        names = self.context.names
        neighbors: list[IntArray] = []
        for i, tracker in self.losses.items():
            view = View(i, len(names), tracker.peers, tracker.tracked)
            rng = stream(self.context.seed, "sample", names[i], round_index)
            neighbors.append(self.sampler.sample(view, rng))
        return neighbors

    @timed("e_step")
    def e_step(self, visits: Visits) -> None:
        """Equation (3): the losses of the visited models, tracked, become each peer's posterior."""
        losses = self.learner.evaluate(self.bank, visits)  # [visits]
        if self.opt.loss == "sum":
            losses *= self.learner.samples[visits.clients]

        for i, positions in visits.by_client():
            owners = visits.owners[positions]
            self.losses[i].observe(owners, losses[positions])
            self.posteriors[i] = self._posterior(i)
            self.forget_negligible(i)

    @timed("m_step")
    def m_step(self, visits: Visits, round_index: int) -> Updates:
        """Equations (5) and (8): what each visitor sends to owners of models it gives weight to."""
        weights = self._visit_weights(visits)  # [visits]
        kept = self._worth_training(visits, weights)
        visits = visits[kept]
        weights = weights[kept]

        if self.opt.m_step == "gradient":
            gradients = self.learner.gradient(self.bank, visits, round_index)
            return Updates(visits.owners, visits.clients, weights, gradients)

        deltas = self.learner.train(
            self.bank,
            visits,
            round_index,
            epochs=self.context.local_epochs,
            fresh=self.opt.optimizer_state == "fresh",
        )
        samples = self.learner.samples[visits.clients]
        coefficients = weights * samples
        return Updates(visits.owners, visits.clients, coefficients, deltas)

    @timed("push")
    def push_updates(self, round_index: int, updates: Updates) -> None:
        """Send every update to the owner of its model."""
        self.exchange.push(round_index, updates)

    @timed("update")
    def collect(self, round_index: int) -> Updates:
        """The updates that have arrived for the models hosted here."""
        return self.exchange.collect(round_index)

    @timed("update")
    def update(self, updates: Updates) -> None:
        """Equation (6) at the owners: deltas are averaged, gradients summed into an optimizer."""
        if self.opt.m_step == "epochs":
            average_into(self.bank, updates, self.opt.anchor, self.opt.buffers)
            return

        updates = finite(updates)
        owners, positions = np.unique(updates.owners, return_inverse=True)
        totals = self.learner.zeros(len(owners))  # [owners, size]
        for position, coefficient, gradient in zip(
            positions.tolist(), updates.coefficients.tolist(), updates.rows, strict=True
        ):
            totals[position].add_(gradient, alpha=coefficient)
        self.learner.descend(self.bank, owners, totals)

    def predictors(self, round_index: int) -> Mixtures:
        """Each peer predicts with its posterior over models, without negligible weights.

        A peer whose posterior has no weight at all predicts with its own model.
        """
        clients: list[IntArray] = []
        owners: list[IntArray] = []
        weights: list[FloatArray] = []
        for i, row in self.posteriors.items():
            share = significant(row.weights, self.opt.w_min)
            has_weight = share > 0
            peers = row.peers[has_weight]
            share = share[has_weight]
            if len(peers) == 0:
                peers = np.array([i])
                share = np.ones(1)

            clients.append(np.full(len(peers), i))
            owners.append(peers)
            weights.append(share)

        visits = Visits(np.concatenate(clients), np.concatenate(owners))
        return self.read(round_index, visits, np.concatenate(weights))

    def _new_tracker(self, i: int) -> LossTracker:
        """An empty tracker for the losses that peer i will measure."""
        bound = np.inf
        if self.opt.worse_than_guess == "ignored":
            # The loss of a guess, over as many samples as the tracked losses are summed over.
            summed = 1
            if self.opt.loss == "sum":
                summed = self.learner.samples[i]
            bound = summed * self.learner.guess * (1 + ROUNDING)
        return LossTracker(
            self.opt.tracking,
            self.opt.momentum,
            debias=self.opt.debias,
            bound=bound,
        )

    def _posterior(self, i: int) -> Posterior:
        """w_i, computed from the tracked losses of peer i."""
        tracker = self.losses[i]
        if tracker.knows(i) and not tracker.sane.any():
            # All models are worse than a guess: a peer keeps its own.
            is_own = tracker.peers == i
            return Posterior(tracker.peers, is_own.astype(np.float64))

        peers = tracker.peers
        losses = tracker.tracked
        if self.opt.strangers == "literal":
            # Peers that were never evaluated take part too, with loss 0.
            count = self.context.count
            losses_of_all = np.zeros(count)
            losses_of_all[peers] = losses
            peers = np.arange(count)
            losses = losses_of_all

        weights = posterior(losses, self.opt.temperature)
        return Posterior(peers, weights)

    def _visit_weights(self, visits: Visits) -> FloatArray:
        """w_ib of each visit, [visits]."""
        weights = np.empty(len(visits))
        for i, positions in visits.by_client():
            row = self.posteriors[i]
            owners = visits.owners[positions]
            found = np.searchsorted(row.peers, owners)
            weights[positions] = row.weights[found]

            if self.opt.m_step == "epochs" and self.losses[i].knows(i):
                # A peer's own model always has some weight, so that it is trained at all. The least
                # weight is enough if nobody else trains it.
                own = positions[owners == i]
                weights[own] = np.maximum(weights[own], np.finfo(float).tiny)
        return weights

    def _worth_training(self, visits: Visits, weights: FloatArray) -> IntArray:
        """Positions of the visits with enough weight, in the order in which owners add them up.

        A peer trains its own model however little weight it has: a model that nobody trains would
        never gain weight again.
        """
        wanted = weights >= self.opt.w_min
        if self.opt.m_step == "epochs":
            to_own = visits.clients == visits.owners
            wanted |= to_own
        has_weight = weights > 0
        kept = np.flatnonzero(wanted & has_weight)

        clients = visits.clients[kept]
        owners = visits.owners[kept]
        by_owner = np.lexsort((clients, owners))
        return kept[by_owner]

    def forget_negligible(self, i: int) -> None:
        """Drop the optimizer states that peer i keeps for models of negligible weight.

        The state for its own model stays.
        """
        row = self.posteriors[i]
        is_negligible = row.weights < self.opt.w_min
        negligible = row.peers[is_negligible]
        for j in negligible.tolist():
            if j != i:
                self.learner.states.drop((i, j))


def _neighbors(options: FedericoOptions, clients: int) -> int:
    """How many other peers a peer visits in a round: no more than there are."""
    others = clients - 1
    if options.sampler == "everyone":
        return others
    return min(options.neighbors, others)


def _meeting_rounds(options: FedericoOptions, sampling_rounds: int) -> int:
    """The largest number of rounds in which a peer may visit models it has never visited."""
    if options.sampler != "epsilon_greedy" or options.strangers != "cautious":
        return sampling_rounds

    # Only a uniform draw reaches strangers. Twice the expected number of such rounds covers chance,
    # and one more the first round.
    exploring = ceil(2 * options.epsilon * sampling_rounds) + 1
    return min(sampling_rounds, exploring)


def _sampler(options: FedericoOptions, neighbors: int) -> Sampler:
    """The sampler that the options name."""
    if options.sampler == "everyone":
        return Everyone()
    if options.sampler == "uniform":
        return Uniform(neighbors)
    return EpsilonGreedy(neighbors, options.epsilon, options.coin, options.strangers)
