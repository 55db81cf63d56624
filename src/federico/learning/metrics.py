"""The figures that predictions are judged by: by name, one value for each client.

Predictions and targets are those of all clients, one client after the other; `counts` says how
many samples each has. A figure that a client's samples do not define is NaN.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from federico.learning.visits import positions_by
from federico.types import Array, BoolArray, FloatArray, IntArray

SMALLEST_PROBABILITY = 1e-30
"""Lower bound on the probability of the true class, so that every loss of a mixture is finite."""
CALIBRATION_BINS = 15
"""Bins of equal width in which confidence is compared with how often it is right."""
ADDED_IN_ONE_THREAD = 1 << 14
"""Numbers of which torch certainly takes the mean in a single thread."""
NO_CLASS = -1
"""The predicted class where probabilities are NaN: never the true one."""


@dataclass(frozen=True)
class Scores:
    """How good each client's predictions for its own samples are."""

    figures: dict[str, FloatArray]
    """By name, see below; one value for each client, and NaN is undefined."""

    def take(self, clients: IntArray) -> "Scores":
        """The scores of these clients."""
        return Scores({name: values[clients] for name, values in self.figures.items()})


def classification_figures(
    probabilities: Tensor, labels: Tensor, counts: IntArray
) -> dict[str, FloatArray]:
    """Accuracy, log loss, area under the ROC curve, macro F1 and calibration error.

    `probabilities` is [samples, classes]. A row with a NaN in it counts as a wrong prediction.
    """
    true_class = labels[:, None]  # [samples, 1]
    probability = probabilities.gather(1, true_class)[:, 0]  # [samples]
    log_loss = -probability.clamp_min(SMALLEST_PROBABILITY).log()

    # `argmax` takes a NaN for the largest number, so it has to be replaced.
    is_nan = probabilities.isnan().any(1)
    predicted = probabilities.argmax(1).masked_fill(is_nan, NO_CLASS)
    hits = predicted == labels

    rows = probabilities.cpu().numpy()
    true = labels.cpu().numpy()
    chosen = predicted.cpu().numpy()
    return {
        "accuracy": _mean_by_client(hits, counts),
        "loss": _mean_by_client(log_loss, counts),
        "auroc": _auroc(rows, true, is_nan.cpu().numpy(), counts),
        "macro_f1": _macro_f1(chosen, true, rows.shape[1], counts),
        "calibration_error": _calibration_error(rows, chosen, true, counts),
    }


def regression_figures(
    predicted: Tensor, targets: Tensor, train_mean: Tensor, counts: IntArray
) -> dict[str, FloatArray]:
    """Mean squared error and its root, mean absolute error, R2, and skill.

    All are [samples, outputs], in the units of the targets; errors are means over the outputs.
    Skill is R2 against `train_mean`, the mean of the client's training targets: below 0, a model is
    worse than that constant.
    """
    errors = predicted - targets.to(predicted.dtype)
    squared = _mean_by_client(errors.square().mean(1), counts)

    remaining = errors.cpu().double().numpy()
    true = targets.cpu().double().numpy()
    from_test_mean = _deviations(true, counts)
    from_train_mean = true - train_mean.cpu().double().numpy()
    return {
        "loss": squared,
        "rmse": np.sqrt(squared),
        "mae": _mean_by_client(errors.abs().mean(1), counts),
        "r2": _explained(remaining, from_test_mean, counts),
        "skill": _explained(remaining, from_train_mean, counts),
    }


def _mean_by_client(values: Tensor, counts: IntArray) -> FloatArray:
    """The mean of `values`, one per sample, over each client's samples, [clients]."""
    in_doubles = values.cpu().double()
    starts = np.cumsum(counts) - counts
    means = np.zeros(len(counts))
    # Clients with equally many samples together, unless these are so many that torch adds them up
    # in several threads: then the sum of each would depend on who else has as many.
    for count, clients in positions_by(counts):
        if count > ADDED_IN_ONE_THREAD:
            for client in clients.tolist():
                first = int(starts[client])
                means[client] = float(in_doubles[first : first + count].mean())
            continue
        samples = starts[clients][:, None] + np.arange(count)  # [clients, samples]
        means[clients] = in_doubles[torch.from_numpy(samples)].mean(1).numpy()
    return means


def _auroc(probabilities: Array, labels: Array, is_nan: BoolArray, counts: IntArray) -> FloatArray:
    """The area under the ROC curve, one class against the rest, mean over a client's classes.

    Only classes count that occur in the client's samples and are not all of them.
    """
    clients = _client_of_each_sample(counts)
    classes = probabilities.shape[1]
    occurs = _count_by_client(clients, labels, len(counts), classes)  # [clients, classes]
    judged = (occurs > 0) & (occurs < counts[:, None])  # [clients, classes]

    total = np.zeros(len(counts))
    for label in np.flatnonzero(judged.any(0)).tolist():
        chosen = judged[clients, label]
        is_positive = labels[chosen] == label

        # A NaN is the worst answer: below all others for the class, above all others if it is not.
        worst = np.where(is_positive, -np.inf, np.inf)
        scores = np.where(is_nan[chosen], worst, probabilities[chosen, label])

        ranks = _ranks_within(clients[chosen], scores)
        rank_sums = np.bincount(
            clients[chosen], weights=ranks * is_positive, minlength=len(counts)
        )  # [clients]

        # The share of (positive, negative) pairs in the right order: Mann and Whitney's U.
        positives = occurs[:, label].astype(np.float64)
        negatives = counts - positives
        in_order = rank_sums - positives * (positives + 1) / 2
        has_class = judged[:, label]
        total[has_class] += in_order[has_class] / (positives * negatives)[has_class]
    return _quotient(total, judged.sum(1))


def _ranks_within(groups: IntArray, scores: FloatArray) -> FloatArray:
    """The rank of each score among those of its group, from 1; equal scores share their mean rank.

    `groups` are sorted.
    """
    order = np.lexsort((scores, groups))
    sorted_groups = groups[order]
    sorted_scores = scores[order]
    count = len(order)

    # Runs of equal scores of one group: [start, end) of each, and which run each score is in.
    is_new_group = np.ones(count, dtype=bool)
    is_new_group[1:] = sorted_groups[1:] != sorted_groups[:-1]
    is_new_run = is_new_group.copy()
    is_new_run[1:] |= sorted_scores[1:] != sorted_scores[:-1]
    starts = np.flatnonzero(is_new_run)
    ends = np.append(starts[1:], count)
    run = np.cumsum(is_new_run) - 1

    group_starts = np.flatnonzero(is_new_group)
    group_start = group_starts[np.cumsum(is_new_group) - 1]

    # The mean of the ranks start + 1, ..., end.
    mean_ranks = (starts + 1 + ends) / 2
    ranks: FloatArray = np.empty(count)
    ranks[order] = mean_ranks[run] - group_start
    return ranks


def _macro_f1(predicted: Array, labels: Array, classes: int, counts: IntArray) -> FloatArray:
    """F1, mean over the classes that occur in a client's labels or predictions."""
    clients = _client_of_each_sample(counts)
    number = len(counts)

    is_class = predicted != NO_CLASS
    is_hit = predicted == labels
    occurs = _count_by_client(clients, labels, number, classes)  # [clients, classes]
    chosen = _count_by_client(clients[is_class], predicted[is_class], number, classes)
    hits = _count_by_client(clients[is_hit], labels[is_hit], number, classes)

    # 2 hits / (2 hits + false alarms + misses), 0 for a class that occurs in neither.
    either = occurs + chosen
    f1 = 2 * hits / np.maximum(either, 1)  # [clients, classes]
    return _quotient(f1.sum(1), (either > 0).sum(1))


def _calibration_error(
    probabilities: Array, predicted: Array, labels: Array, counts: IntArray
) -> FloatArray:
    """Expected calibration error: how far confidence is from how often it is right.

    A NaN is taken for a wrong answer given in full confidence.
    """
    clients = _client_of_each_sample(counts)
    confidence = np.where(predicted == NO_CLASS, 1.0, probabilities.max(1))
    bins = np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1
    bins = np.clip(bins, 0, CALIBRATION_BINS - 1)

    # A bin's share of the samples times its gap is the size of this sum over the samples.
    gaps = confidence - (predicted == labels)
    sums = np.bincount(
        clients * CALIBRATION_BINS + bins, weights=gaps, minlength=len(counts) * CALIBRATION_BINS
    )
    by_bin = np.abs(sums).reshape(len(counts), CALIBRATION_BINS)  # [clients, bins]
    return _quotient(by_bin.sum(1), counts)


def _deviations(targets: FloatArray, counts: IntArray) -> FloatArray:
    """Each target minus the mean of the client's targets, [samples, outputs]."""
    clients = _client_of_each_sample(counts)
    starts = np.cumsum(counts) - counts

    # Measured from the client's first target, so that constant targets deviate by exactly 0.
    moved = targets - targets[starts[clients]]  # [samples, outputs]
    deviations: FloatArray = np.zeros(moved.shape)
    for output in range(targets.shape[1]):
        sums = np.bincount(clients, weights=moved[:, output], minlength=len(counts))
        means = _quotient(sums, counts)
        deviations[:, output] = moved[:, output] - means[clients]
    return deviations


def _explained(errors: FloatArray, usual: FloatArray, counts: IntArray) -> FloatArray:
    """1 - squared errors / squared errors of a usual prediction, mean over the outputs, [clients].

    Outputs that the usual prediction gets exactly right in all of a client's samples are left out.
    """
    clients = _client_of_each_sample(counts)
    total = np.zeros(len(counts))
    defined = np.zeros(len(counts))
    for output in range(errors.shape[1]):
        with np.errstate(over="ignore"):  # a diverged model has an infinite error
            squared = errors[:, output] ** 2
        unexplained = np.bincount(clients, weights=squared, minlength=len(counts))
        overall = np.bincount(clients, weights=usual[:, output] ** 2, minlength=len(counts))

        varies = overall > 0
        total[varies] += 1 - unexplained[varies] / overall[varies]
        defined += varies
    return _quotient(total, defined)


def _client_of_each_sample(counts: IntArray) -> IntArray:
    return np.repeat(np.arange(len(counts)), counts)


def _count_by_client(clients: IntArray, labels: Array, number: int, classes: int) -> IntArray:
    """How often each class occurs among the samples of each client, [clients, classes]."""
    counted = np.bincount(clients * classes + labels, minlength=number * classes)
    return counted.reshape(number, classes)


def _quotient(numerator: Array, denominator: Array) -> FloatArray:
    """One by the other; NaN where the denominator is 0."""
    result = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result
