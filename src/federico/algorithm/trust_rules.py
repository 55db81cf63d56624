"""How the evidence on models becomes trust.

- `gain` is FedeRiCo's own rule: t = max(0, 1 + G)^2 for a model that is worth G nats. What is worth
  nothing counts once, what does harm counts nothing.

The others are what the literature on combining models proposes. They are here so that they can be
measured beside it:

- `softmax`: the posterior probability of each model, were one of them the true one (Bayesian model
  averaging). Its sharpness grows exponentially with the number of held-out samples.
- `bootstrap`: the same, averaged over resampled held-out samples (the Bayesian bootstrap, as in
  pseudo-BMA+), so that few samples give softer trust.
- `stacking`: the weights under which the mixture of the models explains the held-out samples best.
"""

from typing import Literal

import numpy as np

from federico.algorithm.evidence import NO_GAIN
from federico.types import FloatArray

TrustRule = Literal["gain", "softmax", "bootstrap", "stacking"]

LEAST_OWN_TRUST = 1e-6
"""A peer trusts its own model at least this much, so that somebody always trains it."""
BOOTSTRAP_DRAWS = 200
"""How often the held-out samples are resampled."""
STACKING_STEPS = 200
"""Steps of expectation maximisation towards the best mixture."""


def needs_samples(rule: TrustRule) -> bool:
    """Whether the rule looks at single samples; the others need no more than gains."""
    return rule in ("bootstrap", "stacking")


def trust(
    gains: FloatArray,
    own: int,
    rule: TrustRule = "gain",
    log_likelihood: FloatArray | None = None,
) -> FloatArray:
    """The weights of models, [models]; `own` is the place of the peer's own model.

    See `scores` for what the evidence is made of.
    """
    score = scores(rule, gains, log_likelihood)
    score[own] = max(score[own], LEAST_OWN_TRUST)
    weights: FloatArray = score / score.sum()
    return weights


def scores(
    rule: TrustRule, gains: FloatArray, log_likelihood: FloatArray | None = None
) -> FloatArray:
    """What each model counts for beside the others, [models]; zero for one that does harm.

    `gains` are [models]. `log_likelihood` is [models, samples]; only rules that need samples look
    at it.
    """
    if rule == "gain":
        return np.maximum(0.0, 1.0 + gains) ** 2

    # A model that does harm has no share in what the others explain.
    is_usable = gains > NO_GAIN
    score = np.zeros(len(gains))
    if rule == "softmax":
        score[is_usable] = _softmax(gains[is_usable])
        return score

    assert log_likelihood is not None, "this rule needs samples"
    of_usable = log_likelihood[is_usable]
    if rule == "bootstrap":
        score[is_usable] = _bootstrapped(of_usable)
    else:
        score[is_usable] = _stacked(of_usable)
    return score


def _bootstrapped(log_likelihood: FloatArray) -> FloatArray:
    """The mean of softmax weights over resampled held-out samples, [models]."""
    models, samples = log_likelihood.shape
    if models == 0 or samples == 0:
        return np.ones(models)

    # The same draws every time: trust must not move where no evidence has.
    rng = np.random.default_rng(samples)
    shares = rng.dirichlet(np.ones(samples), size=BOOTSTRAP_DRAWS)  # [draws, samples]
    resampled = samples * shares @ log_likelihood.T  # [draws, models]
    by_draw = _softmax(resampled)
    mean: FloatArray = by_draw.mean(axis=0)
    return mean


def _stacked(log_likelihood: FloatArray) -> FloatArray:
    """The weights of the mixture that explains the samples best, [models]."""
    models, samples = log_likelihood.shape
    weights = np.ones(models)
    if models == 0 or samples == 0:
        return weights

    weights /= models
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))  # [models, samples]
    for _ in range(STACKING_STEPS):
        joint = weights[:, None] * likelihood
        responsibilities = joint / joint.sum(axis=0)
        weights = responsibilities.mean(axis=1)
    return weights


def _softmax(scores: FloatArray) -> FloatArray:
    """Weights over the last axis that grow exponentially with the scores and sum to one."""
    if scores.shape[-1] == 0:
        return scores
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: FloatArray = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights
