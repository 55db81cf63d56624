"""What held-out samples say about a model, as plain loops.

`federico.algorithm.evidence` has the same for many models at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan, cos, exp, inf, isfinite, isnan, log, nan, pi, sin, sqrt

from federico.algorithm.evidence import (
    DOUBT,
    GATE_HALVINGS,
    GATE_SAMPLES,
    PRIOR_SAMPLES,
    TEMPERATURES,
)
from federico.algorithm.trust_rules import LEAST_OWN_TRUST

Numbers = Sequence[float]
Table = Sequence[Numbers]
"""What a model says about samples: for each of them a number for each class or value."""


@dataclass(frozen=True)
class ReferenceEvidence:
    """What the held-out samples of one peer say about one model."""

    gain: float
    """Nats that the model is worth; minus infinity if its outputs are not finite."""
    temperature: float
    prior_power: float
    log_likelihood: list[float]
    """Of each held-out sample, by the model as this peer reads it."""
    by_sample: list[float]
    """What each held-out sample adds to the gain."""


# Classes.


def label_frequencies(labels: Sequence[int], classes: int) -> list[float]:
    """Log pi of each class: how often it is among the labels, which get one more of each class."""
    counts = [1] * classes
    for label in labels:
        counts[label] += 1
    return [log(count / sum(counts)) for count in counts]


def calibrated(
    log_probabilities: Numbers, temperature: float, prior_power: float, log_prior: Numbers
) -> list[float]:
    """Log p'(y|x) of each class for one sample, where p' ~ p^(1/T) pi^a."""
    scores: list[float] = []
    for log_probability, log_frequency in zip(log_probabilities, log_prior, strict=True):
        score = log_probability / temperature + prior_power * log_frequency
        scores.append(score)

    total = log_of_sum(scores)
    return [score - total for score in scores]


def evidence_from_classes(
    log_probabilities: Table, labels: Sequence[int], log_prior: Numbers, prior_powers: Numbers
) -> ReferenceEvidence:
    """Calibrate a model on the held-out samples, and say what it is worth."""
    if not all_finite(log_probabilities):
        return no_evidence(len(labels))

    # The most probable calibration: the prior is log T ~ N(0, 1), and a > 0 must be worth a nat.
    best_score = -inf
    for prior_power in prior_powers:
        for temperature in TEMPERATURES:
            log_likelihood: list[float] = []
            for row, label in zip(log_probabilities, labels, strict=True):
                of_classes = calibrated(row, temperature, prior_power, log_prior)
                log_likelihood.append(of_classes[label])

            doubt = 0.5 * log(temperature) ** 2
            if prior_power > 0:
                doubt += 1
            score = sum(log_likelihood) - doubt
            if score > best_score:
                best_score = score
                best = (temperature, prior_power, log_likelihood)

    # The guess knows how frequent the labels are, or gives all the same probability: the better.
    classes = len(log_prior)
    by_frequency = [log_prior[label] for label in labels]
    guess = [-log(classes) for _ in labels]
    if sum(by_frequency) > sum(guess):
        guess = by_frequency

    temperature, prior_power, log_likelihood = best
    by_sample = differences(log_likelihood, guess)
    return ReferenceEvidence(sum(by_sample), temperature, prior_power, log_likelihood, by_sample)


# Values (regression).


def evidence_from_values(predictions: Table, targets: Table) -> ReferenceEvidence:
    """What a model's predictions are worth, against predicting the mean, which is 0."""
    if not all_finite(predictions):
        return no_evidence(len(targets))

    residuals: list[list[float]] = []
    for predicted, true in zip(predictions, targets, strict=True):
        residuals.append([p - y for p, y in zip(predicted, true, strict=True)])

    log_likelihood = gaussian(residuals)
    guess = gaussian(targets)
    by_sample = differences(log_likelihood, guess)
    return ReferenceEvidence(sum(by_sample), 1.0, 0.0, log_likelihood, by_sample)


def gaussian(residuals: Table) -> list[float]:
    """The log-density of each sample's residuals, under the variance fitted to all of them."""
    # A few residuals of variance 1 come first: two samples alone would look far too sure.
    total = PRIOR_SAMPLES
    count = PRIOR_SAMPLES
    for row in residuals:
        for residual in row:
            total += residual**2
            count += 1
    variance = total / count

    log_density: list[float] = []
    for row in residuals:
        of_sample = 0.0
        for residual in row:
            of_sample -= 0.5 * (residual**2 / variance + log(2 * pi * variance))
        log_density.append(of_sample)
    return log_density


# From evidence to trust, and to the share of the collaborators.


def trust_in(gains: dict[int, float], own: int) -> dict[int, float]:
    """The posterior: what each model weighs, by the nats that it is worth."""
    score = {j: trust_by_gain(gain) for j, gain in gains.items()}
    score[own] = max(score[own], LEAST_OWN_TRUST)

    total = sum(score.values())
    return {j: score[j] / total for j in score}


def trust_by_gain(gain: float) -> float:
    """t: what a model that is worth this many nats counts for."""
    return max(0.0, 1.0 + gain) ** 2


def mixture_log_likelihood(
    evidence: dict[int, ReferenceEvidence], gains: dict[int, float], weights: dict[int, float]
) -> list[float]:
    """Log of the weighted mean of the models' likelihoods, for each held-out sample.

    The models that explain a sample are trusted as they would be without it.
    """
    trusted = [b for b in weights if weights[b] > 0]
    samples = len(evidence[trusted[0]].by_sample)

    mixed: list[float] = []
    for s in range(samples):
        without: dict[int, float] = {}
        for b in trusted:
            without[b] = 0.0
            if isfinite(evidence[b].gain):
                without[b] = trust_by_gain(gains[b] - evidence[b].by_sample[s])
        if sum(without.values()) == 0:
            without = {b: weights[b] for b in trusted}

        total = sum(without.values())
        terms = [-inf]
        for b in trusted:
            if without[b] > 0:
                terms.append(log(without[b] / total) + evidence[b].log_likelihood[s])
        mixed.append(log_of_sum(terms))
    return mixed


def share_together(together: Numbers, alone: Numbers, prior: float) -> float:
    """The gate: the weight of `together` under which a mixture of the two explains samples best.

    At this weight the shares of `together` in all samples, and of the samples that the prior counts
    for, sum to the weight of as many samples. Below it they sum to more, above it to less.
    """
    judged: list[float] = []
    for log_together, log_alone in zip(together, alone, strict=True):
        if log_together > -inf or log_alone > -inf:
            judged.append(log_together - log_alone)

    samples = len(judged) + GATE_SAMPLES
    low = GATE_SAMPLES * prior / samples
    high = (len(judged) + GATE_SAMPLES * prior) / samples
    for _ in range(GATE_HALVINGS):
        weight = (low + high) / 2
        total = GATE_SAMPLES * prior
        for advantage in judged:
            total += share_of_sample(weight, advantage)
        if total > samples * weight:
            low = weight
        else:
            high = weight
    return (low + high) / 2


def chance_that_together_is_better(together: Numbers, alone: Numbers) -> float:
    """How probable it is that `together` explains samples like these better.

    Two imagined samples speak for either side: where no sample seen was explained badly, one to
    come may be. Not a number if no sample says anything.
    """
    advantages = [DOUBT, -DOUBT]
    for log_together, log_alone in zip(together, alone, strict=True):
        if log_together > -inf or log_alone > -inf:
            advantages.append(log_together - log_alone)
    samples = len(advantages)
    if samples == 2:
        return nan

    mean = sum(advantages) / samples
    if mean == inf:
        return 1.0
    if mean == -inf:
        return 0.0
    if isnan(mean):
        return nan
    variance = sum((advantage - mean) ** 2 for advantage in advantages) / (samples - 1)
    return student_t(mean / sqrt(variance / samples), samples - 1)


def student_t(t: float, freedom: int) -> float:
    """How probable a value below t is, under Student's t with so many degrees of freedom.

    For whole degrees it is a finite sum over powers of a cosine.
    """
    angle = atan(t / sqrt(freedom))
    if freedom % 2 == 0:
        term = 1.0
        power = 0
    else:
        term = cos(angle)
        power = 1

    total = 0.0
    while power <= freedom - 2:
        total += term
        term *= (power + 1) / (power + 2) * cos(angle) ** 2
        power += 2
    within = sin(angle) * total
    if freedom % 2 == 1:
        within = (angle + within) * 2 / pi
    return (1 + within) / 2


def share_of_sample(weight: float, advantage: float) -> float:
    """How probable it is that `together` has the say on a sample, which it explains better."""
    before = log(weight) - log(1 - weight)
    log_odds = before + advantage

    # The same either way; but the exponential of a large number would overflow.
    if log_odds > 0:
        return 1 / (1 + exp(-log_odds))
    odds = exp(log_odds)
    return odds / (1 + odds)


# Helpers.


def differences(numbers: Numbers, others: Numbers) -> list[float]:
    """Each number less the other at its place."""
    return [number - other for number, other in zip(numbers, others, strict=True)]


def log_of_sum(terms: Numbers) -> float:
    """Log of the sum of exponentials; the largest is taken out, so that nothing overflows."""
    largest = max(terms)
    if largest == -inf:
        return -inf
    return largest + log(sum(exp(term - largest) for term in terms))


def all_finite(table: Table) -> bool:
    """Whether no number is infinite or not a number."""
    return all(isfinite(number) for row in table for number in row)


def no_evidence(samples: int) -> ReferenceEvidence:
    """What is said of a broken model: it explains no sample."""
    return ReferenceEvidence(-inf, 1.0, 0.0, [-inf] * samples, [-inf] * samples)
