"""Sketches of how models classify: a few numbers whose distance tells how differently they do it.

Two models may be the same function with other numbers: exchange two hidden units, or make a layer
twice as large and the next half as large. What they answer for the same samples gives them away.

For regression there are none: honest models of one value soon answer so alike that many of them
would be taken for echoes.
"""

from collections.abc import Sequence

import numpy as np

from federico.rng import stream
from federico.types import Array, FloatArray, IntArray

NUMBERS = 32
"""Numbers in a sketch: distances are right to about an eighth."""
LEAST_ANSWERS = NUMBERS
"""Answers from which a sketch is made, beside those that it does not look at: models that answer a
few questions alike may still be different models."""


def no_sketches(visits: int) -> FloatArray:
    """Sketches of models that are not known: close to nothing, [visits, numbers]."""
    return np.full((visits, NUMBERS), np.nan)


class AnswerSketches:
    """Makes sketches of the outputs of models for the samples of clients."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        """`names` are those of all clients."""
        self._names = names
        self._seed = seed
        self._signs: dict[int, Array] = {}

    def of(self, outputs: FloatArray, clients: IntArray) -> FloatArray:
        """The sketches of log-probabilities [visits, samples, classes] for these clients' samples.

        What a judge evens out is left out: how sure a model is, and how much more likely it takes
        each class to be.
        """
        _, samples, classes = outputs.shape
        if (samples - 1) * (classes - 1) < LEAST_ANSWERS:
            return no_sketches(len(outputs))

        among_classes = outputs - outputs.mean(axis=2, keepdims=True)
        among_samples = among_classes - among_classes.mean(axis=1, keepdims=True)
        answers = among_samples.reshape(len(outputs), -1)
        lengths = np.linalg.norm(answers, axis=1, keepdims=True)
        # A model that answers all samples alike answers nothing: its sketch is NaN.
        with np.errstate(invalid="ignore", divide="ignore"):
            answers = answers / lengths

        count = answers.shape[1]
        signs = np.stack([self._signs_of(client, count) for client in clients.tolist()])
        firsts = np.arange(NUMBERS) * count // NUMBERS
        return np.add.reduceat(answers * signs, firsts, axis=1)

    def _signs_of(self, client: int, count: int) -> Array:
        """A sign for each answer, the same in all rounds and whoever hosts the client."""
        signs = self._signs.get(client)
        if signs is None or len(signs) != count:
            rng = stream(self._seed, "sketches of answers", self._names[client])
            signs = rng.choice([-1, 1], count).astype(np.int8)
            self._signs[client] = signs
        return signs
