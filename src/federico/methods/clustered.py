"""Clustered federated learning (Sattler et al. 2020): FedAvg inside clusters that split where clients disagree."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat
from torch import Tensor

from federico.exchange.protocol import Updates
from federico.learning.visits import Visits
from federico.methods.method import (
    GLOBAL,
    Method,
    MethodContext,
    Mixtures,
    Needs,
    Posterior,
    Round,
    average_into,
    finite,
    shares,
)
from federico.options import Options
from federico.types import FloatArray, IntArray


class ClusteredOptions(Options):
    """Options of Clustered FL."""

    eps1: PositiveFloat = 0.4
    """A cluster may split while its average update is shorter than this: it has come to rest as a whole."""
    eps2: NonNegativeFloat = 1.6
    """A cluster may split while the longest update of a client is longer than this: somebody is not at rest."""
    min_round: NonNegativeInt = 0
    """Nobody splits up to and including this round."""
    relative: bool = False
    """Take `eps1` as a share of the longest update. Under Adam every update is long, and so is their average."""
    compat: Literal["none", "fedem"] = "none"
    """`fedem` compares `eps2` to the largest single coordinate of an update, as FedEM's published code does."""


class Clustered(Method):
    """One model per cluster. The server keeps each client's cluster and, as its row, the model of that cluster."""

    name = "clustered"
    title = "Clustered FL"
    summary = "FedAvg inside clusters, which split in two where the clients' updates point apart."
    options = ClusteredOptions
    opt: ClusteredOptions

    @classmethod
    def needs(
        cls, options: Any, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """A row per client, and the updates twice more where they are compared."""
        return Needs(clients, clients, clients, copies=2 * clients)

    def __init__(self, context: MethodContext, options: ClusteredOptions) -> None:
        super().__init__(context, options)
        self.clusters: IntArray = np.zeros(len(self.bank.owners), dtype=np.int64)
        """By client: the smallest member of its cluster. Only the process of the server has entries."""

    def owners(self) -> Mapping[int, str]:
        """A row per client at the server, K to 2K-1, all from one start: clients need not know their clusters."""
        count = self.context.count
        return dict.fromkeys(range(count, 2 * count), GLOBAL)

    @property
    def names(self) -> tuple[str, ...]:
        """The clients', and each one's cluster."""
        return (*self.context.names, *["cluster"] * self.context.count)

    def round(self, round_index: int) -> Round:
        """FedAvg in every cluster, after those that are torn have split."""
        clock = self.context.clock
        with clock("pull"):
            visits = self.exchange.pull(round_index, self.to_cluster())
        self.push_moves(visits, round_index)
        with clock("update"):
            updates = finite(self.exchange.collect(round_index))
            if round_index > self.opt.min_round:
                self.split(updates)
            return Round(posteriors=self.update(updates))

    def split(self, updates: Updates) -> None:
        """Cut every torn cluster in two; one whose members did not all send an update waits."""
        for first in np.unique(self.clusters):
            members = np.flatnonzero(self.clusters == first)
            moves = updates.take(np.flatnonzero(np.isin(updates.contributors, members)))
            parameters = moves.rows.as_tensor()[:, : self.bank.layout.parameters]
            if len(moves) == len(members) > 2 and self._torn(parameters, moves.coefficients):
                other = members[_halves(parameters)]
                mine = np.setdiff1d(members, other)
                self.clusters[mine], self.clusters[other] = mine.min(), other.min()

    def update(self, updates: Updates) -> list[Posterior]:
        """Average inside each cluster; returns each client's row over the members of its cluster, by their data."""
        groups = self.clusters[updates.contributors]
        joined = replace(updates, owners=self.context.count + groups)
        average_into(self.bank, joined)
        self.bank.hosted_rows.copy_(self.bank.hosted_rows[torch.from_numpy(self.clusters)])
        share = shares(joined)
        return [
            Posterior(updates.contributors[groups == c], share[groups == c]) for c in self.clusters
        ]

    def mixtures(self, round_index: int) -> Mixtures:
        """The model of one's cluster."""
        visits = self.to_cluster()
        return Mixtures(self.bank, visits, np.ones(len(visits)))

    def to_cluster(self) -> Visits:
        """Every hosted client meets the model of its cluster."""
        hosted = self.context.hosted
        return Visits(hosted, self.context.count + hosted)

    def state(self) -> dict[str, Tensor]:
        """Models, optimizers and who is with whom."""
        return {**super().state(), "clusters": torch.from_numpy(self.clusters.copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        super().restore(state)
        self.clusters = state["clusters"][self._places(state)].numpy()

    def _torn(self, moves: Tensor, samples: FloatArray) -> bool:
        """At rest as a whole, but not everybody: the clients pull in directions that cancel."""
        share = torch.from_numpy(samples / samples.sum()).to(moves)
        mean = float(torch.linalg.vector_norm(share @ moves))
        top = float(torch.linalg.vector_norm(moves, dim=1).max())
        biggest = float(moves.abs().max()) if self.opt.compat == "fedem" else top
        return mean < self.opt.eps1 * (top if self.opt.relative else 1) and biggest > self.opt.eps2


def _halves(moves: Tensor) -> IntArray:
    """The places of one half, by complete linkage on 1 - cosine."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics.pairwise import cosine_distances

    cut = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="complete")
    return np.flatnonzero(cut.fit_predict(cosine_distances(moves.cpu().numpy())))
