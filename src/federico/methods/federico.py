"""FedeRiCo: federating with the right collaborators (Sui et al. 2022), Algorithm 1.

`federico.algorithm.reference` is the same method as plain loops; a test holds the two together.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator
from torch import Tensor

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
from federico.methods.method import (
    GLOBAL,
    Buffers,
    Method,
    MethodContext,
    Mixtures,
    Needs,
    Posterior,
    Round,
    average_into,
    check_neighbors,
    finite,
)
from federico.options import Options
from federico.rng import stream
from federico.types import FloatArray, IntArray

LITERAL: dict[str, Any] = {
    "loss": "sum", "strangers": "literal", "solo_rounds": 0, "m_step": "gradient", "w_min": 0.0,
    "worse_than_guess": "tracked",
}  # fmt: skip

ROUNDING = 1e-6
"""A model that gives all classes the same probability is no worse than a guess, in whatever precision."""


class FedericoOptions(Options):
    """Options of FedeRiCo; `docs/explanation-open-points.md` says why each default is what it is."""

    preset: Literal["federico", "literal"] = "federico"
    """`literal` sets the options you do not set yourself to Algorithm 1 as printed."""
    neighbors: NonNegativeInt = 3
    """M: how many other peers each peer visits per round; 0 is training alone, K-1 is all-to-all. Where it is not set
    and there are fewer others, all of them."""
    sampler: Literal["epsilon_greedy", "uniform", "everyone"] = "epsilon_greedy"
    """How neighbors are chosen; `everyone` takes all others whatever `neighbors` says."""
    epsilon: float = Field(default=0.3, ge=0, le=1)
    """Probability that a peer samples uniformly instead of taking the best."""
    coin: Coin = "per_round"
    """One epsilon coin per peer and round, or one per neighbor."""
    strangers: Strangers = "optimistic"
    """Peers never evaluated: tried once each (`optimistic`), reached through epsilon only (`cautious`, for hundreds of
    peers), or loss 0 in the posterior too (`literal`)."""
    tracking: Tracking = "ema"
    """How losses are tracked: moving average, or accumulated over rounds."""
    momentum: float = Field(default=0.6, gt=0, le=1)
    """beta: weight of the new loss in the moving average."""
    debias: bool = False
    """Correct the moving average for its start at 0."""
    loss: Literal["mean", "sum"] = "mean"
    """Whether the posterior is made of the mean or of the sum of a peer's losses over its samples."""
    temperature: PositiveFloat = 1.0
    """Divides the tracked losses before the softmax; higher spreads the posterior."""
    worse_than_guess: Literal["ignored", "tracked"] = "ignored"
    """A model whose mean loss is above ln C, that of giving all C classes the same probability: it has no weight until
    a later visit finds it below, and is remembered as no worse than ln C (`ignored`); or every loss is tracked as it
    is. Where all are worse, one's own model has all the weight. Without effect in regression."""
    w_min: float = Field(default=1e-4, ge=0, lt=1)
    """Posterior weights below this train nothing, send nothing and predict nothing; but with `m_step = "epochs"` a
    peer's own model is always trained."""
    solo_rounds: NonNegativeInt = 1
    """Rounds of own training before anybody samples."""
    anchor: float = Field(default=0.0, ge=0, le=1)
    """Least share of a peer's own data in the update of its own model."""
    start: Literal["independent", "same"] = "independent"
    """Whether every peer starts from its own random model or all from one."""
    m_step: Literal["epochs", "gradient"] = "epochs"
    """Send the move of local epochs, or one full-data gradient into an optimizer at the owner."""
    optimizer_state: Literal["kept", "fresh"] = "kept"
    """Whether a visitor keeps its optimizer's moments for a model between its visits."""
    buffers: Buffers = "average"
    """Batch-norm statistics: averaged like parameters, moved by the owner only, or frozen."""

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("preset") == "literal":
            return {**LITERAL, **values}
        return values

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.debias and self.tracking == "accumulated":
            raise ValueError("debias corrects a moving average: it needs tracking = 'ema'")
        if self.m_step == "gradient" and (self.anchor > 0 or self.optimizer_state == "fresh"):
            raise ValueError(
                "anchor and optimizer_state = 'fresh' are about local epochs: they need m_step = 'epochs'"
            )
        return self


class Federico(Method):
    """Every peer finds its collaborators by measuring their models on its own data."""

    name = "federico"
    title = "FedeRiCo"
    summary = "Decentralised: each peer visits a few others and predicts with the models its posterior trusts."
    options = FedericoOptions
    opt: FedericoOptions

    @classmethod
    def check(cls, options: FedericoOptions, clients: int, layout: ModelLayout) -> None:
        """Neighbors must exist, and a gradient must be all there is to learn."""
        if options.sampler != "everyone":
            check_neighbors(cls.name, options, options.neighbors, clients)
        if options.m_step == "gradient" and layout.size > layout.parameters:
            raise ConfigError(
                "federico.m_step = 'gradient': it cannot train float buffers (batch-norm statistics); use 'epochs'"
            )

    @classmethod
    def needs(
        cls, options: FedericoOptions, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """Everybody trains what it visits, and keeps an optimizer for the models that weigh something.

        Those are its like, once it has met them, and of the others about half of what a round visits: they are told
        apart after one visit or after several. Where nobody knows who is alike, all that are met may weigh something.
        """
        neighbors = (
            clients - 1 if options.sampler == "everyone" else min(options.neighbors, clients - 1)
        )
        sampling = max(0, rounds - options.solo_rounds)
        visited = clients * neighbors * (sampling > 0)
        visits = clients + visited
        if options.m_step == "gradient":
            return Needs(clients, visits + clients, clients)
        if options.optimizer_state == "fresh":
            return Needs(clients, visits, 0, fresh=visits)
        others = clients * (clients - 1)
        alike = (
            others
            if distribution is None
            else sum(n * (n - 1) for n in Counter(distribution).values())
        )
        met = min(others, visited * sampling)
        kept = alike * met + (others - alike) * min(met, visited // 2)
        return Needs(clients, visits, clients + kept // max(1, others))

    def __init__(self, context: MethodContext, options: FedericoOptions) -> None:
        super().__init__(context, options)
        self.sampler = _sampler(options, min(options.neighbors, context.count - 1))
        self.trackers = {i: self._tracker(i) for i in context.hosted.tolist()}
        self.posteriors = {i: Posterior(np.empty(0, np.int64), np.empty(0)) for i in self.trackers}

    def owners(self) -> Mapping[int, str]:
        """A model per peer."""
        same = self.opt.start == "same"
        return {i: GLOBAL if same else name for i, name in enumerate(self.context.names)}

    def round(self, round_index: int) -> Round:
        """Algorithm 1, one pass of its outer loop, for all peers at once."""
        clock = self.context.clock
        with clock("sample"):
            neighbors = self.sample(round_index)
        with clock("pull"):
            visits = self.pull(round_index, neighbors)
        with clock("e_step"):
            self.e_step(visits)
        with clock("m_step"):
            updates = self.m_step(visits, round_index)
        with clock("push"):
            self.exchange.push(round_index, updates)
        del updates  # what is sent need not lie here while what has come is added up
        with clock("update"):
            self.update(self.exchange.collect(round_index))
        return Round(neighbors, [*self.posteriors.values()])

    def sample(self, round_index: int) -> list[IntArray]:
        """Each peer's neighbors, by what it knew before this round; nobody samples in a solo round."""
        if round_index <= self.opt.solo_rounds:
            return [np.empty(0, np.int64) for _ in self.trackers]
        names, seed = self.context.names, self.context.seed
        return [
            self.sampler.sample(
                View(i, len(names), tracker.peers, tracker.tracked),
                stream(seed, "sample", names[i], round_index),
            )
            for i, tracker in self.trackers.items()
        ]

    def e_step(self, visits: Visits) -> None:
        """Equation (3): the losses of the visited models, tracked, become each peer's posterior."""
        losses = self.learner.evaluate(self.bank, visits)
        if self.opt.loss == "sum":
            losses *= self.learner.samples[visits.clients]
        for i, places in visits.by_client():
            self.trackers[i].observe(visits.owners[places], losses[places])
            self.posteriors[i] = self._posterior(i)
            self._forget_negligible(i)

    def m_step(self, visits: Visits, round_index: int) -> Updates:
        """Equations (5) and (8): what each visitor sends to the owners of the models it gives weight to."""
        weights = self._weights(visits)
        kept = self._worth_training(visits, weights)
        visits, weights = visits[kept], weights[kept]
        if self.opt.m_step == "gradient":
            gradients = self.learner.gradient(self.bank, visits, round_index)
            return Updates(visits.owners, visits.clients, weights, gradients)
        fresh = self.opt.optimizer_state == "fresh"
        epochs = self.context.local_epochs
        deltas = self.learner.train(self.bank, visits, round_index, epochs=epochs, fresh=fresh)
        return Updates(
            visits.owners, visits.clients, weights * self.learner.samples[visits.clients], deltas
        )

    def update(self, updates: Updates) -> None:
        """Equation (6) at the owners: moves are averaged, gradients summed into the owner's optimizer."""
        if self.opt.m_step == "epochs":
            average_into(self.bank, updates, self.opt.anchor, self.opt.buffers)
            return
        updates = finite(updates)
        owners, place = np.unique(updates.owners, return_inverse=True)
        total = self.learner.zeros(len(owners))
        for row, k, weight in zip(
            updates.rows, place.tolist(), updates.coefficients.tolist(), strict=True
        ):
            total[k].add_(row, alpha=weight)
        self.learner.descend(self.bank, owners, total)

    def mixtures(self, round_index: int) -> Mixtures:
        """Each peer's posterior over models without its negligible part; one's own model if nothing else is sane."""
        visits: list[Visits] = []
        weights: list[FloatArray] = []
        for i, row in self.posteriors.items():
            share = significant(row.weights, self.opt.w_min)
            peers, share = row.peers[share > 0], share[share > 0]
            if not len(peers):
                peers, share = np.array([i]), np.ones(1)
            visits.append(Visits(np.full(len(peers), i), peers))
            weights.append(share)
        clients = np.concatenate([part.clients for part in visits])
        owners = np.concatenate([part.owners for part in visits])
        return Mixtures(self.bank, Visits(clients, owners), np.concatenate(weights))

    def state(self) -> dict[str, Tensor]:
        """Models and optimizers, and the tracked losses of the hosted peers end to end."""
        rows = [tracker.state() for tracker in self.trackers.values()]
        lengths = torch.tensor([len(row["peers"]) for row in rows])
        losses = {
            f"losses.{key}": torch.from_numpy(np.concatenate([row[key] for row in rows]))
            for key in rows[0]
        }
        clients = torch.tensor(list(self.trackers))
        return {**super().state(), **losses, "losses.lengths": lengths, "losses.clients": clients}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Posteriors need no saving: they follow from the tracked losses."""
        super().restore(state)
        ends = dict(
            zip(
                state["losses.clients"].tolist(),
                state["losses.lengths"].cumsum(0).tolist(),
                strict=True,
            )
        )
        lengths = dict(zip(ends, state["losses.lengths"].tolist(), strict=True))
        for i, tracker in self.trackers.items():
            mine = slice(ends[i] - lengths[i], ends[i])
            tracker.restore({key: state[f"losses.{key}"][mine].numpy() for key in tracker.state()})
            self.posteriors[i] = self._posterior(i)

    def _tracker(self, i: int) -> LossTracker:
        bound = np.inf
        if self.opt.worse_than_guess == "ignored":
            samples = self.learner.samples[i] if self.opt.loss == "sum" else 1
            bound = samples * self.learner.guess * (1 + ROUNDING)
        return LossTracker(
            self.opt.tracking, self.opt.momentum, debias=self.opt.debias, bound=bound
        )

    def _posterior(self, i: int) -> Posterior:
        tracker = self.trackers[i]
        if tracker.knows(i) and not tracker.sane.any():
            return Posterior(tracker.peers, (tracker.peers == i).astype(np.float64))
        peers, losses = tracker.peers, tracker.tracked
        if self.opt.strangers == "literal":
            everybody = np.zeros(self.context.count)
            everybody[peers] = losses
            peers, losses = np.arange(self.context.count), everybody
        return Posterior(peers, posterior(losses, self.opt.temperature))

    def _weights(self, visits: Visits) -> FloatArray:
        weights = np.empty(len(visits))
        for i, places in visits.by_client():
            row = self.posteriors[i]
            weights[places] = row.weights[np.searchsorted(row.peers, visits.owners[places])]
            if self.opt.m_step == "epochs" and self.trackers[i].knows(i):
                own = places[visits.owners[places] == i]
                weights[own] = np.maximum(
                    weights[own], np.finfo(float).tiny
                )  # enough where nobody else contributes
        return weights

    def _worth_training(self, visits: Visits, weights: FloatArray) -> IntArray:
        """The visits that weigh enough, by owner, as the owners will sum them: nothing has to be put in order later.

        A peer trains its own model however little it trusts it: one that nobody trains would never be trusted again.
        """
        wanted = weights >= self.opt.w_min
        if self.opt.m_step == "epochs":
            wanted |= visits.clients == visits.owners
        kept = np.flatnonzero(wanted & (weights > 0))
        return kept[np.lexsort((visits.clients[kept], visits.owners[kept]))]

    def _forget_negligible(self, i: int) -> None:
        """Drop the optimizers that peer i keeps for models that no longer weigh anything; its own stays."""
        row = self.posteriors[i]
        for j in row.peers[row.weights < self.opt.w_min].tolist():
            if j != i:
                self.learner.states.drop((i, j))


def _sampler(options: FedericoOptions, neighbors: int) -> Sampler:
    if options.sampler == "everyone":
        return Everyone()
    if options.sampler == "uniform":
        return Uniform(neighbors)
    return EpsilonGreedy(neighbors, options.epsilon, options.coin, options.strangers)
