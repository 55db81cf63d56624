"""The losses that one peer has measured, and their averages, which make its posterior."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from federico.types import Array, BoolArray, FloatArray, IntArray

Tracking = Literal["ema", "accumulated"]


class LossTracker:
    """The latest losses l_ij and tracked losses L_ij of peer i, for the peers j it has evaluated.

    A peer enters at its first evaluation with L = 0, as in Algorithm 1. Every round moves L for
    *all* peers in the tracker, whether they were sampled in this round or not.

    A loss that is not finite is stored as infinite and never averaged. A loss above the bound is
    averaged as if it were the bound, so that a model that was far off is not held back by its past
    once it gets better. In both cases the peer has no weight until it is evaluated again with a
    finite loss within the bound, a *sane* one.
    """

    def __init__(
        self,
        tracking: Tracking = "ema",
        momentum: float = 0.6,
        *,
        debias: bool = False,
        bound: float = np.inf,
    ) -> None:
        """`momentum` is the weight of the *new* loss (the paper's beta)."""
        self.tracking = tracking
        self.momentum = momentum
        self.debias = debias
        self.bound = bound

        # One entry for each peer evaluated so far, in ascending order of peers.
        self.peers: IntArray = np.empty(0, np.int64)
        self.latest: FloatArray = np.empty(0)
        self.moved: IntArray = np.empty(0, np.int64)
        """How often the average of each peer has moved."""
        self._average: FloatArray = np.empty(0)

    def observe(self, peers: IntArray, losses: FloatArray) -> None:
        """Take in this round's losses, then move every average once (the E-step of Algorithm 1)."""
        self._admit(peers)
        observed = np.searchsorted(self.peers, peers)
        is_finite = np.isfinite(losses)
        self.latest[observed] = np.where(is_finite, losses, np.inf)

        # Peers that were not evaluated now are averaged with the loss they had last.
        finite = np.isfinite(self.latest)
        counted = np.minimum(self.latest[finite], self.bound)
        self.moved[finite] += 1
        if self.tracking == "ema":
            change = counted - self._average[finite]
            self._average[finite] += self.momentum * change
        else:
            self._average[finite] += counted

    @property
    def sane(self) -> BoolArray:
        """For each of `peers`, whether its latest loss is finite and not above the bound."""
        finite = np.isfinite(self.latest)
        within_bound = self.latest <= self.bound
        return finite & within_bound

    @property
    def tracked(self) -> FloatArray:
        """L_ij for each of `peers`; infinite where the latest loss is not sane."""
        average = self._average
        if self.debias:
            # The total weight of all losses averaged so far; the start at 0 has the rest.
            start_weight = (1.0 - self.momentum) ** self.moved
            weight = 1.0 - start_weight
            # An average that never moved has weight 0. It is not used, but must not divide by 0.
            average = average / np.maximum(weight, np.finfo(float).tiny)
        return np.where(self.sane, average, np.inf)

    def knows(self, peer: int) -> bool:
        """Whether the latest loss of this peer is known and finite."""
        latest = self.latest[self.peers == peer]  # one loss, or none
        return bool(np.isfinite(latest).any())

    def state(self) -> dict[str, Array]:
        """The arrays to save, each with one entry per peer in the tracker."""
        return {
            "peers": self.peers,
            "latest": self.latest,
            "moved": self.moved,
            "average": self._average,
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Resume from what `state` gave."""
        self.peers = state["peers"].astype(np.int64)
        self.latest = state["latest"].astype(np.float64)
        self.moved = state["moved"].astype(np.int64)
        self._average = state["average"].astype(np.float64)

    def _admit(self, peers: IntArray) -> None:
        """Add an entry for each of these peers that has none yet."""
        new = np.setdiff1d(peers, self.peers)
        if len(new) == 0:
            return

        # Inserted where the peers stay in ascending order.
        at = np.searchsorted(self.peers, new)
        self.peers = np.insert(self.peers, at, new)
        self.latest = np.insert(self.latest, at, np.inf)
        self.moved = np.insert(self.moved, at, 0)
        self._average = np.insert(self._average, at, 0.0)
