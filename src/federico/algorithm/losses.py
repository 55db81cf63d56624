"""The losses one peer has seen: the latest, and the average that the posterior is made of."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from federico.types import Array, BoolArray, FloatArray, IntArray

Tracking = Literal["ema", "accumulated"]


class LossTracker:
    """The losses l_ij and L_ij of one peer i, for the peers j it has ever evaluated and no others.

    A peer enters at its first evaluation with L = 0, as in Algorithm 1. Every round moves L for
    *all* peers in the tracker, sampled now or not.

    A loss that is not finite is noted as infinite and never averaged. One above the bound says how
    wrong a model is, not how near: it is averaged as the bound, so that nothing worse has to be
    forgotten when the model gets better. Either way the peer has no weight until a later visit
    finds it sane again.
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

        # One entry for each peer met, in ascending order of peers.
        self.peers: IntArray = np.empty(0, np.int64)
        self.latest: FloatArray = np.empty(0)
        self.moved: IntArray = np.empty(0, np.int64)
        """How often the average of each peer has moved."""
        self._average: FloatArray = np.empty(0)

    def observe(self, peers: IntArray, losses: FloatArray) -> None:
        """Take in this round's losses, then move every average once (the E-step of Algorithm 1)."""
        self._admit(peers)
        observed = np.searchsorted(self.peers, peers)
        self.latest[observed] = np.where(np.isfinite(losses), losses, np.inf)

        finite = np.isfinite(self.latest)
        counted = np.minimum(self.latest[finite], self.bound)
        self.moved[finite] += 1
        if self.tracking == "ema":
            self._average[finite] += self.momentum * (counted - self._average[finite])
        else:
            self._average[finite] += counted

    @property
    def sane(self) -> BoolArray:
        """For each of `peers`, whether its latest loss is finite and not above the bound."""
        return np.isfinite(self.latest) & (self.latest <= self.bound)

    @property
    def tracked(self) -> FloatArray:
        """L_ij for each of `peers`; infinite where the latest loss was not sane."""
        average = self._average
        if self.debias:
            # An average that never moved has weight 0, and is not used.
            weight = np.maximum(1.0 - (1.0 - self.momentum) ** self.moved, np.finfo(float).tiny)
            average = average / weight
        return np.where(self.sane, average, np.inf)

    def knows(self, peer: int) -> bool:
        """Whether the latest loss of this peer is known and finite."""
        return bool(np.isfinite(self.latest[self.peers == peer]).any())

    def state(self) -> dict[str, Array]:
        """The arrays to save, each with an entry for each peer met."""
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
        """Make an entry for each of these peers that has none yet."""
        new = np.setdiff1d(peers, self.peers)
        if not new.size:
            return
        at = np.searchsorted(self.peers, new)
        self.peers = np.insert(self.peers, at, new)
        self.latest = np.insert(self.latest, at, np.inf)
        self.moved = np.insert(self.moved, at, 0)
        self._average = np.insert(self._average, at, 0.0)
