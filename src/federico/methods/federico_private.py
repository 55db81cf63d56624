"""The models that FedeRiCo's peers train alone, and how much collaboration counts against them.

A private model is trained on all of its peer's samples. Its twin has the same start, but is trained
without those that are held out, so that these can tell how good training alone is. Nobody else ever
sees either.

The twin never sees these samples, not even once trust is final and the other models are trained on
them. So from then on they speak for the collaborators rather than for training alone: where they
still show that training alone has become better, it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from federico.algorithm.evidence import (
    FEW_SAMPLES,
    chances,
    gates,
    mixed_log_likelihood,
    prior_for_values,
)
from federico.learning.calibration import Calibration
from federico.learning.visits import Visits
from federico.methods.federico_evidence import HeldOutEvidence
from federico.methods.judging import Judgement
from federico.methods.method import TrainedAlone
from federico.methods.model_owners import ModelOwner, private_models
from federico.methods.state import PerClient
from federico.types import BoolArray, FloatArray


@dataclass(frozen=True)
class Explained:
    """How well held-out samples are explained: by a peer's mixture, and by training alone."""

    together: FloatArray
    """Log-likelihoods under the mixture, [samples]."""
    alone: FloatArray
    """Log-likelihoods under the private model's twin, [samples]."""


class PrivateModels:
    """The hosted peers' private models and their twins."""

    together = PerClient[FloatArray]()
    """How much the collaborators count against the private model where they move a peer's own
    model, [hosted]."""
    together_ceiling = PerClient[FloatArray]()
    """What `together` may be at most: 1 until trust is final, [hosted]."""
    predicting = PerClient[FloatArray]()
    """How much they count in what a peer predicts with, [hosted]: no more than in `together`."""
    predicting_ceiling = PerClient[FloatArray]()
    """What `predicting` may be at most: 1 until trust is final, [hosted]."""
    chance = PerClient[FloatArray](where_missing=np.nan)
    """How probable it is that the collaborators do better than training alone, [hosted]; NaN where
    nothing can be said. Nothing else depends on it: it is there to be told."""
    chance_ceiling = PerClient[FloatArray](where_missing=np.nan)
    """What `chance` may be at most: 1 until trust is final, [hosted]; NaN where that is not known,
    and then it never is."""
    private_temperature = PerClient[FloatArray]()
    """T of each private model, [hosted]."""

    def __init__(self, evidence: HeldOutEvidence) -> None:
        self.evidence = evidence
        self.opt = evidence.opt
        self.learner = evidence.learner
        self.bank = evidence.bank

        # As `owners` numbers them.
        hosted = evidence.context.hosted
        count = evidence.context.count
        self.visits = Visits(hosted, hosted + count)
        """Every hosted peer visits the model that it trains alone."""
        self.visits_to_twins = Visits(hosted, hosted + 2 * count)
        """Every hosted peer visits the twin, which sees no held-out sample."""

        self.together = np.full(len(hosted), self.opt.together_prior)
        self.together_ceiling = np.ones(len(hosted))
        self.predicting = np.full(len(hosted), self.opt.predicting_prior)
        self.predicting_ceiling = np.ones(len(hosted))
        self.chance = np.full(len(hosted), np.nan)
        self.chance_ceiling = np.ones(len(hosted))
        self.private_temperature = np.ones(len(hosted))

    @staticmethod
    def owners(clients: Sequence[str]) -> list[ModelOwner]:
        """A private model and its twin for each peer, numbered behind the models that are shown."""
        count = len(clients)
        private = private_models(clients, "alone", count)
        twins = private_models(clients, "alone, judged", 2 * count)
        return private + twins

    def compare(
        self, visits: Visits, weights: FloatArray, judgement: Judgement, collaborates: BoolArray
    ) -> None:
        """Judge this round's mixtures against training alone.

        `collaborates`: which of the hosted peers trust anybody else.
        """
        explained, temperatures = self._explained(visits, weights, judgement, collaborates)
        self.together = self._gate(explained, self.together_ceiling)
        self.predicting = self._gate(explained, self.predicting_ceiling, predicting=True)
        self.chance = self._chance(explained)
        if self.evidence.is_judging:
            self.private_temperature[:] = temperatures
            return

        # A peer that trusted nobody when trust became final may find collaborators later.
        first = (self.together_ceiling == 1) & (self.together > 0)
        self.together_ceiling[first] = self.together[first]
        self.predicting_ceiling[first] = self.predicting[first]
        self._limit_chance(first)

    def judge_now(
        self, visits: Visits, weights: FloatArray, judgement: Judgement
    ) -> tuple[FloatArray, FloatArray]:
        """How much the mixtures of these visits count as all models are now, [hosted].

        And how probable it is that they do better than training alone, [hosted].
        """
        to_collaborator = (weights > 0) & ~visits.are_own
        with_collaborators = visits.clients[to_collaborator]
        collaborates = np.isin(self.visits.clients, with_collaborators)  # [hosted]
        explained, _ = self._explained(visits, weights, judgement, collaborates)
        predicting = self._gate(explained, self.predicting_ceiling, predicting=True)
        return predicting, self._chance(explained)

    def _explained(
        self, visits: Visits, weights: FloatArray, judgement: Judgement, collaborates: BoolArray
    ) -> tuple[list[Explained | None], FloatArray]:
        """What either side says of each hosted peer's samples, and T of its private model.

        None for a peer without collaborators: it is alone, and its private model saw more data.
        """
        # A site alone would not shift its own model by label frequencies: only the temperature is
        # fitted, so that the private model predicts the classes that training alone does.
        judge = self.evidence.judge
        alone = judge.judge(self.bank, self.visits_to_twins, prior_powers=(0.0,))
        explained: list[Explained | None] = []
        for place, (i, positions) in enumerate(visits.by_client()):
            if not collaborates[place]:
                explained.append(None)
                continue

            evidence = judgement.of(positions)
            by_sample = self.evidence.gains[i].weights_without_sample(
                visits.owners[positions], weights[positions], evidence
            )
            mixed = mixed_log_likelihood(evidence.log_likelihood, by_sample)
            explained.append(Explained(mixed, alone.log_likelihood[place]))
        return explained, alone.temperature

    def _gate(
        self, explained: list[Explained | None], ceilings: FloatArray, *, predicting: bool = False
    ) -> FloatArray:
        """How much each hosted peer's mixture counts against its private model, [hosted]."""
        both_explain: list[int] = []
        priors: list[float] = []
        for place, samples in enumerate(explained):
            if samples is None:
                continue
            both_explain.append(place)
            prior = self.opt.together_prior
            if predicting:
                prior = self._predicting_prior(len(samples.alone))
            priors.append(prior)

        judged = [samples for samples in explained if samples is not None]
        found = gates(
            [samples.together for samples in judged],
            [samples.alone for samples in judged],
            np.array(priors),
        )
        together = np.zeros(len(explained))
        together[both_explain] = np.minimum(found, ceilings[both_explain])
        return together

    def _chance(self, explained: list[Explained | None]) -> FloatArray:
        """How probable it is that each hosted peer's mixture does better than its private model."""
        both_explain = [place for place, samples in enumerate(explained) if samples is not None]
        judged = [samples for samples in explained if samples is not None]
        chance = np.full(len(explained), np.nan)
        chance[both_explain] = chances(
            [samples.together for samples in judged], [samples.alone for samples in judged]
        )
        limited: FloatArray = np.minimum(chance, self.chance_ceiling)  # NaN stays
        return limited

    def _limit_chance(self, places: BoolArray) -> None:
        """From now on these hosted peers do not become surer of their collaborators."""
        known = places & np.isfinite(self.chance)
        self.chance_ceiling[known] = self.chance[known]

    def _predicting_prior(self, samples: int) -> float:
        """The gate's prior in what a peer predicts with that holds out so many samples."""
        prior = self.opt.predicting_prior
        # Who holds out few samples has judged the models of others by all it has.
        if samples < FEW_SAMPLES:
            prior = self.opt.together_prior
        if self.learner.task == "regression":
            prior = prior_for_values(prior)
        return prior

    def end_judging(self) -> None:
        """From now on collaboration may only count for less."""
        collaborates = self.together > 0
        self.together_ceiling = np.where(collaborates, self.together, 1.0)
        self.predicting_ceiling = np.where(collaborates, self.predicting, 1.0)
        self._limit_chance(collaborates)

    def trained_alone(self, together: FloatArray, chance: FloatArray) -> TrainedAlone:
        """The private models and what they count for; nothing if they are not finite.

        `chance` is that of their collaborators, see `chance`.
        """
        finite = self.bank.are_finite(self.visits.owners)
        weights = np.where(finite, 1.0 - together, 0.0)
        if self.learner.task == "regression":
            return TrainedAlone(self.visits, weights, together_chance=chance)

        offsets = np.zeros((len(self.visits), self.learner.outputs_count))
        calibration = Calibration(self.private_temperature.copy(), offsets)
        return TrainedAlone(self.visits, weights, calibration, chance)
