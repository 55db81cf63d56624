"""How much a peer trusts a model: evidence on samples that the model was not trained on.

A peer holds out a part V of its samples and judges every model it visits by what the model says
about V, in four steps:

1. *Calibrate.* A model may be right but too sure of itself, or used to other labels. It is read as
   p'(y|x) ~ p(y|x)^(1/T) pi(y)^a, where pi are the label frequencies of this peer; T and a are the
   most probable values on a small grid, under a prior that favours T = 1 and a = 0.
2. *Gain.* G = sum over V of log p'(y|x), less the same sum for a guess that knows the label
   frequencies but not x: the nats that the model is worth to this peer. It grows with the number
   of samples, so that few samples give soft trust and many give firm trust.
3. *Trust.* See `federico.algorithm.trust_rules`.
4. *Gate.* How much the collaborators' mixture counts against the model that a peer trained alone.
   Each sample is explained by the mixture as it would be trusted without this very sample: among
   few samples, chance makes some model look good, and the mixture must not be praised for that.
   The gate has a prior: in favour of collaboration where models are trained, and of neither side in
   what a peer predicts with.
5. *Chance.* How sure it is that the mixture does better than the model trained alone, from the same
   numbers as the gate. It is told, and nothing depends on it.

Values (regression) are judged by a Gaussian around the prediction with a variance fitted to V, and
guessed by their mean. `federico.algorithm.reference` has the same as plain loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from federico.types import BoolArray, FloatArray, IntArray

TEMPERATURES = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.0, 16.0, 32.0)
"""Temperatures that are tried; the prior is log T ~ N(0, 1)."""
PRIOR_POWERS = (0.0, 0.5, 1.0)
"""Powers of the label frequencies that are tried; one above 0 must be worth a nat."""
PRIOR_SAMPLES = 2.0
"""How many samples of variance 1 the fitted variance of values starts from."""
FEW_SAMPLES = 8
"""A peer that holds out fewer samples than this judges the models of others by all its samples
first, and sends nothing until it has."""
NO_GAIN = -1.0
"""A model that is worth less than this has no trust; its gain is remembered as this."""
GATE_HALVINGS = 50
"""How often the interval that the gate lies in is halved: as exact as numbers are."""
GATE_SAMPLES = 2.0
"""How many samples the prior of the gate counts for."""
DOUBT = 3.0
"""Two samples are imagined, one of which speaks for either side with this many nats: among few
samples there may be none on which a model is wrong, and such samples decide."""
VALUES_ODDS = 0.25
"""The prior odds of the collaborators in a predicted value, in parts of those in a class.

Where the class is decided, a model that is not sure leaves the decision to those that are. A value
is moved by every model's whole weight, so that collaborators who are no better do more harm."""


@dataclass(frozen=True)
class Evidence:
    """What the held-out samples of peers say about models: an entry for each visit.

    All visits that are judged together have the same number of samples.
    """

    gain: FloatArray
    """Nats that each model is worth, [visits]; minus infinity where its outputs are not finite."""
    temperature: FloatArray
    """T of each model, [visits]."""
    prior_power: FloatArray
    """a of each model, [visits]."""
    log_likelihood: FloatArray
    """log p'(y|x) of each sample, [visits, samples]; minus infinity where the gain is."""
    by_sample: FloatArray
    """What each sample adds to the gain, [visits, samples]."""


def log_label_prior(labels: IntArray, classes: int) -> FloatArray:
    """Log pi of each class: the frequencies of these labels, with one more of each class."""
    counts = np.bincount(labels, minlength=classes) + 1.0
    prior: FloatArray = np.log(counts / counts.sum())
    return prior


def judge_classes(
    log_probabilities: FloatArray,
    labels: IntArray,
    log_priors: FloatArray,
    prior_powers: Sequence[float] = PRIOR_POWERS,
) -> Evidence:
    """Evidence from class probabilities, [visits, samples, classes].

    `labels` are [visits, samples], `log_priors` the label frequencies of each visitor, [visits,
    classes]. `prior_powers` are those that are tried.
    """
    visits, samples, classes = log_probabilities.shape
    finite = _finite(log_probabilities)
    usable = np.where(finite[:, None, None], log_probabilities, 0.0)

    best = np.full(visits, -np.inf)
    temperature = np.ones(visits)
    prior_power = np.zeros(visits)
    log_likelihood = np.full((visits, samples), -np.inf)
    for power in prior_powers:
        for tried_temperature in TEMPERATURES:
            tried = _log_likelihood(usable, labels, tried_temperature, power * log_priors)
            doubt = 0.5 * np.log(tried_temperature) ** 2 + float(power > 0)
            score = tried.sum(axis=1) - doubt

            better = (score > best) & finite
            best[better] = score[better]
            temperature[better] = tried_temperature
            prior_power[better] = power
            log_likelihood[better] = tried[better]

    by_frequency = np.take_along_axis(log_priors, labels, axis=1)  # [visits, samples]
    uniform = np.full((visits, samples), -np.log(classes))
    frequency_is_better = by_frequency.sum(axis=1) > uniform.sum(axis=1)
    guess = np.where(frequency_is_better[:, None], by_frequency, uniform)
    by_sample = log_likelihood - guess
    gain = np.where(finite, by_sample.sum(axis=1), -np.inf)
    return Evidence(gain, temperature, prior_power, log_likelihood, by_sample)


def judge_values(predictions: FloatArray, targets: FloatArray) -> Evidence:
    """Evidence from predicted values, [visits, samples, outputs], and targets of the same shape.

    Targets are standardised: their mean is 0 and a spread of 1 is usual.
    """
    visits = len(predictions)
    finite = _finite(predictions)
    usable = np.where(finite[:, None, None], predictions, 0.0)

    # Predictions may be so far off that their squares are not finite: such a model is broken too.
    with np.errstate(over="ignore", invalid="ignore"):
        log_likelihood = _gaussian(usable - targets)  # [visits, samples]
        guess = _gaussian(targets)  # [visits, samples]
        by_sample = log_likelihood - guess
        gain = by_sample.sum(axis=1)
    finite &= np.isfinite(gain)
    gain[~finite] = -np.inf
    log_likelihood[~finite] = -np.inf
    by_sample[~finite] = -np.inf
    return Evidence(gain, np.ones(visits), np.zeros(visits), log_likelihood, by_sample)


def gates(
    together: Sequence[FloatArray], alone: Sequence[FloatArray], priors: FloatArray
) -> FloatArray:
    """The weight of each client's mixture `together` against the model that it trained alone.

    Both are log-likelihoods of the client's held-out samples. The weight is the one under which the
    mixture of the two explains the samples best, with a prior that is worth `GATE_SAMPLES` samples.
    A sample that neither can explain says nothing.
    """
    found = np.zeros(len(together))
    for clients, advantage in _advantages(together, alone):
        found[clients] = _best_weights(advantage, priors[clients])
    return found


def _best_weights(advantage: FloatArray, priors: FloatArray) -> FloatArray:
    """Of clients with equally many samples, [clients]; `advantage` is [clients, samples]."""
    judged = advantage.shape[1]
    samples = judged + GATE_SAMPLES
    prior_samples = GATE_SAMPLES * priors

    # What is maximised is concave: the weight is the only zero of its slope, which is positive
    # below it and negative above. It lies between `together` explaining nothing and everything.
    low = prior_samples / samples
    high = (judged + prior_samples) / samples
    for _ in range(GATE_HALVINGS):
        weight = (low + high) / 2

        # How probable it is for each sample that `together` has the say.
        odds = np.log(weight) - np.log1p(-weight)
        log_odds = odds[:, None] + advantage  # [clients, samples]
        share = np.exp(-np.logaddexp(0.0, -log_odds))
        is_low = share.sum(axis=1) + prior_samples > samples * weight
        low = np.where(is_low, weight, low)
        high = np.where(is_low, high, weight)
    best: FloatArray = (low + high) / 2
    return best


def chances(together: Sequence[FloatArray], alone: Sequence[FloatArray]) -> FloatArray:
    """How probable it is that each client's mixture does better than the model trained alone.

    Both are log-likelihoods of the client's held-out samples. With the two samples that are
    imagined, it is the chance that a mean like that of their differences, with Student's t for its
    error, is above zero. NaN where no sample says anything.
    """
    found = np.full(len(together), np.nan)
    for clients, advantage in _advantages(together, alone):
        samples = advantage.shape[1]
        if samples > 0:
            found[clients] = _chances_above_zero(advantage)
    return found


def _chances_above_zero(advantage: FloatArray) -> FloatArray:
    """Of clients with equally many samples, [clients]; `advantage` is [clients, samples]."""
    imagined = np.tile([DOUBT, -DOUBT], (len(advantage), 1))
    seen = np.concatenate([advantage, imagined], axis=1)
    samples = seen.shape[1]

    # Some samples may be impossible for one of the two: then it is surely worse.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = seen.sum(axis=1) / samples
        squares = (seen - mean[:, None]) ** 2
        variance = squares.sum(axis=1) / (samples - 1)
        value = np.where(np.isinf(mean), mean, mean / np.sqrt(variance / samples))
    found: FloatArray = stdtr(samples - 1, value)
    return found


def _advantages(
    together: Sequence[FloatArray], alone: Sequence[FloatArray]
) -> list[tuple[IntArray, FloatArray]]:
    """By how much the mixtures of clients explain samples better, [clients, samples].

    Clients with equally many samples stand together, to be worked on at once. A sample that neither
    side can explain is left out.
    """
    by_count: dict[int, list[int]] = {}
    advantages: list[FloatArray] = []
    for client, (by_mixture, by_own) in enumerate(zip(together, alone, strict=True)):
        judged = np.isfinite(by_mixture) | np.isfinite(by_own)
        advantage = by_mixture[judged] - by_own[judged]
        advantages.append(advantage)
        by_count.setdefault(len(advantage), []).append(client)

    found: list[tuple[IntArray, FloatArray]] = []
    for clients in by_count.values():
        of_clients = np.stack([advantages[client] for client in clients])
        found.append((np.array(clients), of_clients))
    return found


def prior_for_values(prior: float) -> float:
    """What becomes of the gate's prior for classes where values are predicted."""
    odds = VALUES_ODDS * prior / (1 - prior)
    return odds / (1 + odds)


def mixed_log_likelihood(log_likelihood: FloatArray, weights: FloatArray) -> FloatArray:
    """Log of the weighted mean of likelihoods, [samples].

    `log_likelihood` and `weights` are [models, samples]: the mixture that explains a sample may be
    weighted without it. Weights of all zeros count as equal.
    """
    total = weights.sum(axis=0)
    shares = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / len(weights))

    has_weight = shares > 0
    log_shares = np.log(np.where(has_weight, shares, 1.0))
    weighted = np.where(has_weight, log_shares + log_likelihood, -np.inf)
    mixed: FloatArray = np.logaddexp.reduce(weighted, axis=0)
    return mixed


def _finite(outputs: FloatArray) -> BoolArray:
    """Which visits have no output that is infinite or not a number, [visits]."""
    by_visit = np.isfinite(outputs).reshape(len(outputs), -1)
    return np.asarray(by_visit.all(axis=1))


def _log_likelihood(
    log_probabilities: FloatArray, labels: IntArray, temperature: float, log_weights: FloatArray
) -> FloatArray:
    """Log p'(y|x) of each visit and sample; `log_weights` are [visits, classes]."""
    scores = log_probabilities / temperature
    scores += log_weights[:, None, :]  # [visits, samples, classes]
    true_class = labels[:, :, None]
    of_true_class = np.take_along_axis(scores, true_class, axis=2)[:, :, 0]

    largest = scores.max(axis=2)
    scores -= largest[:, :, None]
    total = largest + np.log(np.exp(scores, out=scores).sum(axis=2))
    likelihood: FloatArray = of_true_class - total
    return likelihood


def _gaussian(residuals: FloatArray) -> FloatArray:
    """log-density of residuals under the variance fitted to them, [visits, samples]."""
    _, samples, outputs = residuals.shape
    squares = residuals**2
    total = squares.sum(axis=(1, 2)) + PRIOR_SAMPLES
    variance = total / (samples * outputs + PRIOR_SAMPLES)  # [visits]
    normalization = np.log(2 * np.pi * variance)
    scaled = squares / variance[:, None, None]
    log_density = -0.5 * (scaled + normalization[:, None, None])
    of_samples: FloatArray = log_density.sum(axis=2)
    return of_samples
