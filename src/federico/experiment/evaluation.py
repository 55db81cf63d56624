"""Measures what everybody's predictors have come to, on the clients' own test data."""

from dataclasses import dataclass, replace

import numpy as np

from federico.learning.metrics import Scores
from federico.methods.method import Method, Mixtures
from federico.runs.metric import TRIGGER_SUCCESS
from federico.types import FloatArray


@dataclass(frozen=True)
class Evaluation:
    """The scores of the hosted clients after a round."""

    used: Scores
    """Of what each client predicts with."""
    alone: Scores | None = None
    """Of the model that each client trained alone, where the method trains one."""
    together: Scores | None = None
    """Of the collaborators' models without it."""
    together_share: FloatArray | None = None
    """How much the collaborators' models count in what each client predicts with."""
    together_chance: FloatArray | None = None
    """How probable it is that they do better than what the client trained alone; NaN where nothing
    can be said."""


def evaluate(method: Method, mixtures: Mixtures) -> Evaluation:
    """All scores; in a simulation of a backdoor, also how often its mark decides."""
    evaluation = _evaluate(method, mixtures)
    learner = method.learner
    if learner.backdoor is None:
        return evaluation

    personal = mixtures.personal()
    mixed = learner.mix(
        personal.bank, personal.visits, personal.weights, "marked", personal.calibration
    )
    success = learner.trigger_success(mixed)[method.context.hosted]
    used = Scores({**evaluation.used.figures, TRIGGER_SUCCESS: success})
    return replace(evaluation, used=used)


def _evaluate(method: Method, mixtures: Mixtures) -> Evaluation:
    """Score everybody's predictors; where clients also trained alone, each of the two as well."""
    learner = method.learner
    hosted = method.context.hosted
    together = learner.mix(
        mixtures.bank, mixtures.visits, mixtures.weights, calibration=mixtures.calibration
    )
    scores_together = learner.scores(together).take(hosted)
    trained_alone = mixtures.alone
    if trained_alone is None:
        return Evaluation(scores_together)

    each_once = np.ones(len(trained_alone.visits))
    alone = learner.mix(
        mixtures.bank, trained_alone.visits, each_once, calibration=trained_alone.calibration
    )
    share_alone = np.zeros(method.context.count)
    share_alone[trained_alone.visits.clients] = trained_alone.weights
    used = learner.combined(together, alone, share_alone)
    return Evaluation(
        used=learner.scores(used).take(hosted),
        alone=learner.scores(alone).take(hosted),
        together=scores_together,
        together_share=1 - share_alone[hosted],
        together_chance=trained_alone.together_chance,
    )
