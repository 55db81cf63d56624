"""Linear models as vectors, for the references: what they say, their loss and its gradient."""

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from federico.types import FloatArray, IntArray

CLASSES = 3
FEATURES = 4


def line(phi: FloatArray, x: FloatArray) -> FloatArray:
    """The values of the line phi[0] * x + phi[1]."""
    return phi[0] * x + phi[1]


def squared_error(phi: FloatArray, x: FloatArray, y: FloatArray) -> float:
    """Mean squared error of the line."""
    return float(np.mean((line(phi, x) - y) ** 2))


def squared_error_gradient(phi: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    error = line(phi, x) - y
    return np.array([np.mean(2 * error * x), np.mean(2 * error)])


def scores(phi: FloatArray, x: FloatArray) -> FloatArray:
    """What a linear model of three classes says before it is normalised."""
    weights = phi[: CLASSES * FEATURES].reshape(CLASSES, FEATURES)
    return x @ weights.T + phi[CLASSES * FEATURES :]


def log_probabilities(phi: FloatArray, x: FloatArray) -> FloatArray:
    result: FloatArray = log_softmax(scores(phi, x), axis=1)
    return result


def cross_entropy(phi: FloatArray, x: FloatArray, y: IntArray) -> float:
    """Mean loss of a linear model of three classes."""
    said = scores(phi, x)
    return float(np.mean(logsumexp(said, axis=1) - said[np.arange(len(y)), y]))


def cross_entropy_gradient(phi: FloatArray, x: FloatArray, y: IntArray) -> FloatArray:
    error = softmax(scores(phi, x), axis=1)
    error[np.arange(len(y)), y] -= 1
    return np.concatenate([(error.T @ x).ravel(), error.sum(0)]) / len(y)
