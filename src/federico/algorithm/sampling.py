"""Which peers to visit this round (the sampling scheme S of section 3.3).

A sampler sees only what its peer knows: how many peers there are, which of them it has evaluated,
and their tracked losses. Draws are without replacement, never include the peer itself, and ties
break at random.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from federico.types import FloatArray, IntArray

Strangers = Literal["optimistic", "cautious", "literal"]
Coin = Literal["per_round", "per_neighbor"]


@dataclass(frozen=True)
class View:
    """What one peer knows of the others when it samples."""

    peer: int
    count: int
    """How many peers there are, this one included."""
    known: IntArray
    """The peers it has evaluated, in ascending order."""
    losses: FloatArray
    """Their tracked losses; infinite where a peer has no weight."""


class Sampler(Protocol):
    """Anything that picks neighbors for one peer and one round."""

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """The neighbors of `view.peer` this round, sorted."""


@dataclass(frozen=True)
class Everyone:
    """All others, every round: the all-to-all setting of section 3.2."""

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """All peers but this one; nothing is drawn."""
        return np.delete(np.arange(view.count), view.peer)


@dataclass(frozen=True)
class Uniform:
    """`neighbors` of the others, each as likely as any."""

    neighbors: int

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """A uniform draw without replacement."""
        return np.sort(_uniform(view, self.neighbors, rng))


@dataclass(frozen=True)
class EpsilonGreedy:
    """With probability `epsilon` a uniform draw, else the `neighbors` peers of lowest tracked loss.

    Lowest loss and highest posterior are the same order. Strangers, never evaluated, count as loss
    0 and so are each tried once, unless `cautious`: then only the uniform draw reaches them.
    """

    neighbors: int
    epsilon: float
    coin: Coin = "per_round"
    strangers: Strangers = "optimistic"

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """One coin for all neighbors, or one for each."""
        if self.coin == "per_neighbor":
            return np.sort(self._slot_by_slot(view, rng))

        exploring = rng.random() < self.epsilon
        if exploring:
            return np.sort(_uniform(view, self.neighbors, rng))
        return np.sort(self._ranking(view, rng)[: self.neighbors])

    def _ranking(self, view: View, rng: np.random.Generator) -> IntArray:
        """The peers a greedy choice may take, best first; ties are broken at random."""
        if self.strangers == "cautious":
            candidates = view.known
            losses = view.losses
        else:
            candidates = np.arange(view.count)
            losses = np.zeros(view.count)
            losses[view.known] = view.losses

        others = candidates != view.peer
        candidates = candidates[others]
        losses = losses[others]
        tie_breakers = rng.random(len(candidates))
        best_first: IntArray = candidates[np.lexsort((tie_breakers, losses))]
        return best_first

    def _slot_by_slot(self, view: View, rng: np.random.Generator) -> IntArray:
        """Fill one slot after the other, each by its own coin, nobody twice."""
        explore = rng.random(self.neighbors) < self.epsilon
        ranking = self._ranking(view, rng)
        others = np.delete(np.arange(view.count), view.peer)
        shuffled = rng.permutation(others)

        chosen: list[int] = []
        for exploring in explore:
            queue = shuffled if exploring else ranking
            left = [peer for peer in queue.tolist() if peer not in chosen]
            chosen += left[:1]
        return np.array(chosen, dtype=np.int64)


def _uniform(view: View, neighbors: int, rng: np.random.Generator) -> IntArray:
    """So many of the others, or all where there are fewer, in random order."""
    others = view.count - 1
    drawn = rng.choice(others, size=min(neighbors, others), replace=False)
    # Positions at and above the peer's own move up by one: nobody samples itself.
    return np.asarray(drawn + (drawn >= view.peer), dtype=np.int64)
