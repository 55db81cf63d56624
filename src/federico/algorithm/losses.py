"""The losses that one peer has measured, and their averages, which make its posterior."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from federico.algorithm.peer_table import Column, PeerTable
from federico.types import BoolArray, FloatArray, IntArray

Tracking = Literal["ema", "accumulated"]


class LossTracker(PeerTable):
    """The latest losses l_ij and tracked losses L_ij of peer i, for the peers j it has evaluated.

    A peer enters at its first evaluation with L = 0, as in Algorithm 1. Every round moves L for
    *all* peers in the tracker, whether they were sampled in this round or not.

    A loss that is not finite is stored as infinite and never averaged. A loss above the bound is
    averaged as if it were the bound, so that a model that was far off is not held back by its past
    once it gets better. In both cases the peer has no weight until it is evaluated again with a
    finite loss within the bound, a *sane* one.
    """

    columns: ClassVar[Mapping[str, Column]] = {
        "latest": Column(np.inf),
        "moved": Column(0),
        "average": Column(0.0),
    }
    latest: FloatArray
    """l_ij of each peer's model, infinite where it is not finite."""
    moved: IntArray
    """How often the average of each peer has moved."""
    average: FloatArray
    """The average before any correction, see `tracked`."""

    def __init__(
        self,
        tracking: Tracking = "ema",
        momentum: float = 0.6,
        *,
        debias: bool = False,
        bound: float = np.inf,
    ) -> None:
        """`momentum` is the weight of the *new* loss (the paper's beta)."""
        super().__init__()
        self.tracking = tracking
        self.momentum = momentum
        self.debias = debias
        self.bound = bound

    def observe(self, peers: IntArray, losses: FloatArray) -> None:
        """Take in this round's losses, then move every average once (the E-step of Algorithm 1)."""
        observed = self.meet(peers)
        is_finite = np.isfinite(losses)
        self.latest[observed] = np.where(is_finite, losses, np.inf)

        # Peers that were not evaluated now are averaged with the loss they had last.
        finite = np.isfinite(self.latest)
        counted = np.minimum(self.latest[finite], self.bound)
        self.moved[finite] += 1
        if self.tracking == "ema":
            change = counted - self.average[finite]
            self.average[finite] += self.momentum * change
        else:
            self.average[finite] += counted

    @property
    def sane(self) -> BoolArray:
        """For each of `peers`, whether its latest loss is finite and not above the bound."""
        finite = np.isfinite(self.latest)
        within_bound = self.latest <= self.bound
        return finite & within_bound

    @property
    def tracked(self) -> FloatArray:
        """L_ij for each of `peers`; infinite where the latest loss is not sane."""
        average = self.average
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
