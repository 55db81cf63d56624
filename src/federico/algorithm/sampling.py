"""Which peers to visit this round (the sampling scheme S of section 3.3).

A sampler sees only what its peer knows: how many peers there are, which of them it has evaluated,
and their tracked losses. Draws are without replacement and never include the peer itself; ties are
broken at random.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self

import numpy as np

from federico.algorithm.peer_table import PeerTable, among
from federico.types import BoolArray, FloatArray, IntArray

Strangers = Literal["optimistic", "cautious", "literal"]
Coin = Literal["per_round", "per_neighbor"]


@dataclass(frozen=True)
class View:
    """What one peer knows about the others when it samples."""

    peer: int
    count: int
    """How many peers there are, this one included."""
    known: IntArray
    """The peers it has evaluated, in ascending order."""
    losses: FloatArray
    """Their tracked losses; infinite where a peer has no weight."""

    def without_optimism_for(self, peers: IntArray) -> Self:
        """The same view, but those of these peers that are strangers come last, not first.

        A stranger counts as loss 0. One that never gives its model away would be chosen for ever.
        """
        failed = peers[~among(peers, self.known)]
        if len(failed) == 0:
            return self
        known = np.concatenate([self.known, failed])
        losses = np.concatenate([self.losses, np.full(len(failed), np.inf)])
        order = np.argsort(known)
        return replace(self, known=known[order], losses=losses[order])


class AbsentModels(PeerTable):
    """The peers whose models did not come when a peer last wanted them."""

    def note(self, wanted: IntArray, came: IntArray) -> None:
        """Of the peers that were wanted in a round, these came."""
        came = np.sort(came)
        has_come_at_last = among(self.peers, came)
        self.peers = self.peers[~has_come_at_last]

        did_come = among(wanted, came)
        failed = wanted[~did_come]
        if len(failed) > 0:
            self.peers = np.union1d(self.peers, failed)


class Sampler(Protocol):
    """Anything that picks neighbors for one peer and one round."""

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """The neighbors of `view.peer` this round, sorted."""


@dataclass(frozen=True)
class Everyone:
    """All others, every round: the all-to-all setting of section 3.2."""

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """All peers but this one; nothing is drawn at random."""
        return _others(view)


@dataclass(frozen=True)
class Uniform:
    """`neighbors` of the other peers, all equally likely."""

    neighbors: int

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """A uniform draw without replacement."""
        drawn = _uniform(view, self.neighbors, rng)
        return np.sort(drawn)


@dataclass(frozen=True)
class EpsilonGreedy:
    """With probability `epsilon` a uniform draw, else the `neighbors` peers of lowest tracked loss.

    Ordering by lowest loss is the same as ordering by highest posterior. Strangers, peers that were
    never evaluated, count as loss 0 and so are tried once each, unless `strangers` is "cautious":
    then only the uniform draw reaches them.
    """

    neighbors: int
    epsilon: float
    coin: Coin = "per_round"
    strangers: Strangers = "optimistic"

    def sample(self, view: View, rng: np.random.Generator) -> IntArray:
        """Toss one coin for all neighbors, or one for each, as `coin` says."""
        if self.coin == "per_neighbor":
            chosen = self._slot_by_slot(view, rng)
            return np.sort(chosen)

        exploring = rng.random() < self.epsilon
        if exploring:
            chosen = _uniform(view, self.neighbors, rng)
        else:
            chosen = self._best(view, self.neighbors, rng)
        return np.sort(chosen)

    def _best(self, view: View, most: int, rng: np.random.Generator) -> IntArray:
        """The peers that a greedy choice takes, best first; ties are broken at random."""
        if self.strangers == "cautious":
            candidates = view.known
            losses = view.losses
        else:
            candidates = np.arange(view.count)
            losses = np.zeros(view.count)
            losses[view.known] = view.losses

        is_other = candidates != view.peer
        candidates = candidates[is_other]
        losses = losses[is_other]

        # Sorted by loss, and by a random number where losses are equal. Among thousands of peers
        # only those need sorting that may be among the first.
        tie_breakers = rng.random(len(candidates))
        may_be_first = np.flatnonzero(_may_be_first(losses, tie_breakers, most))
        order = np.lexsort((tie_breakers[may_be_first], losses[may_be_first]))
        best_first: IntArray = candidates[may_be_first[order]]
        return best_first[:most]

    def _slot_by_slot(self, view: View, rng: np.random.Generator) -> IntArray:
        """Choose one neighbor after the other, each by its own coin, and no peer twice."""
        coins = rng.random(self.neighbors) < self.epsilon
        best_first = self._best(view, view.count, rng).tolist()
        shuffled = rng.permutation(_others(view)).tolist()

        chosen: list[int] = []
        for exploring in coins:
            candidates = shuffled if exploring else best_first
            left = [peer for peer in candidates if peer not in chosen]
            chosen += left[:1]  # nobody, if no candidate is left
        return np.array(chosen, dtype=np.int64)


def draw_by_weight(
    peers: IntArray, weights: FloatArray, neighbors: int, rng: np.random.Generator
) -> IntArray:
    """Up to `neighbors` of the peers, sorted, drawn by their weights without replacement.

    A peer without weight is never drawn.
    """
    has_weight = weights > 0
    if not has_weight.any():
        return np.empty(0, np.int64)

    # A weight that is negligible beside the others may come to no share at all.
    shares = weights / weights.sum()
    has_share = shares > 0
    candidates = peers[has_share]
    size = min(neighbors, len(candidates))
    drawn = rng.choice(candidates, size=size, replace=False, p=shares[has_share])
    return np.sort(drawn)


def _may_be_first(losses: FloatArray, tie_breakers: FloatArray, most: int) -> BoolArray:
    """Those among which the first `most` by loss and then by tie breaker are, and few others."""
    if most == 0 or len(losses) <= most:
        return np.ones(len(losses), dtype=bool)

    last_loss = np.partition(losses, most - 1)[most - 1]
    is_better = losses < last_loss
    is_tied = losses == last_loss
    places_left = most - int(is_better.sum())
    last_tie_breaker = np.partition(tie_breakers[is_tied], places_left - 1)[places_left - 1]
    wins_tie = is_tied & (tie_breakers <= last_tie_breaker)
    may_be_first: BoolArray = is_better | wins_tie
    return may_be_first


def _others(view: View) -> IntArray:
    """All peers but this one, in ascending order."""
    everybody = np.arange(view.count)
    return np.delete(everybody, view.peer)


def _uniform(view: View, neighbors: int, rng: np.random.Generator) -> IntArray:
    """`neighbors` of the other peers, or all of them if there are fewer, in random order."""
    others = view.count - 1
    size = min(neighbors, others)
    drawn = rng.choice(others, size=size, replace=False)

    # The positions drawn skip the peer itself: those from its own on mean the next peer.
    skipped = drawn >= view.peer
    return np.asarray(drawn + skipped, dtype=np.int64)
