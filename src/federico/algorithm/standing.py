"""What the updates that a contributor has sent say about it: its standing with one owner.

Only what the owner has measured itself counts: how far an update is from the owner's own, and what
updates are worth on held-out samples. So nobody can spoil the standing of anybody else. Direction
does not count: once a model fits two peers equally well, what they would change cancels out, so
that two honest peers send each other the exact opposite of their own updates.

What an update is worth: the owner moves its model as it would if it and this contributor were
alone, each with the share of the average that it has in this round, and once by its own update
only. The difference in nats, on held-out samples, is what the contributor adds. A single one says
little; so they are added up, and only a sum that chance hardly explains is held against a
contributor.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from federico.algorithm.peer_table import Column, PeerTable, among
from federico.types import BoolArray, FloatArray, IntArray

TOO_FAR = 4.0
"""An update that is this many usual lengths of own updates away from the owner's own is refused."""
LEFT_AFTER_REFUSAL = 0.5
"""The part of its standing that a contributor keeps when an update of it is refused."""
REGAINED = 0.1
"""What it regains in every round in which none is refused."""

HARMFUL = 1.0
"""A contributor that has cost an owner this many nats has its updates refused."""
MOST_HARM = 3.0
"""What is remembered of harm at most, so that there is a way back."""


def too_far(distances: FloatArray, lengths: FloatArray) -> BoolArray:
    """Whether updates are so far from the owner's own that they are held against their senders.

    Honest updates are often drawn back: that is held against nobody. An owner that has no update to
    compare with refuses nothing.
    """
    is_known = np.isfinite(distances) & (lengths > 0)
    far: BoolArray = is_known & (distances > TOO_FAR * lengths)
    return far


class Standings(PeerTable):
    """The standing of contributors with one owner: from 1, good, down towards 0."""

    columns: ClassVar[Mapping[str, Column]] = {"standing": Column(1.0), "refusals": Column(0)}
    standing: FloatArray
    refusals: IntArray
    """How many updates were ever refused."""

    def note(self, contributors: IntArray, is_refused: BoolArray) -> None:
        """Take in a round's updates: all who are not refused regain something, sent or not."""
        blamed = self.meet(contributors[is_refused])
        regained = np.minimum(self.standing + REGAINED, 1.0)
        regained[blamed] = self.standing[blamed] * LEFT_AFTER_REFUSAL
        self.standing = regained
        self.refusals[blamed] += 1

    def of(self, peers: IntArray) -> FloatArray:
        """The standing of these peers; good if nothing is known of them."""
        standing = np.ones(len(peers))
        known = among(peers, self.peers)
        standing[known] = self.standing[self.places(peers[known])]
        return standing


class UpdateWorths(PeerTable):
    """What the updates of contributors were worth to one owner so far, in nats: at most nothing.

    Good updates make up for bad ones from before, but nobody can save them up. In every round a
    part of what was bad is forgotten.
    """

    columns: ClassVar[Mapping[str, Column]] = {"worth": Column(0.0)}
    worth: FloatArray

    def fade(self) -> None:
        """Forget a part, as in every round."""
        self.worth = self.worth * (1 - REGAINED)

    def note(self, contributors: IntArray, nats: FloatArray) -> BoolArray:
        """Take in what a round's updates were worth; returns which of them are refused."""
        places = self.meet(contributors)
        total = self.worth[places] + nats
        remembered = np.clip(total, -MOST_HARM, 0.0)
        self.worth[places] = remembered
        refused: BoolArray = remembered < -HARMFUL
        return refused
