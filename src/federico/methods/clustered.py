"""Clustered federated learning (Sattler et al. 2020): FedAvg inside clusters, which may split."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat
from torch import Tensor

from federico.algorithm.aggregation import shares
from federico.exchange.protocol import Updates
from federico.learning.visits import Visits
from federico.methods.averaging import average_into, finite
from federico.methods.method import Method, Mixtures, Needs, Posterior, Round
from federico.methods.model_owners import ModelOwner, shared_models
from federico.methods.state import PerModel
from federico.options import Options
from federico.types import FloatArray, IntArray


class ClusteredOptions(Options):
    """Options of Clustered FL."""

    eps1: PositiveFloat = 0.4
    """A cluster may split while its average update is shorter than this: it has
    converged as a whole."""
    eps2: NonNegativeFloat = 1.6
    """A cluster may split while the longest update of a client is longer than this: some
    client has not converged."""
    min_round: NonNegativeInt = 0
    """No cluster splits up to and including this round."""
    relative: bool = False
    """Take `eps1` as a fraction of the longest update. Under Adam every update is long, and so is
    their average."""
    compat: Literal["none", "fedem"] = "none"
    """`fedem` compares `eps2` to the largest single coordinate of an update, as FedEM's published
    code does."""


class Clustered(Method):
    """One model per cluster. The server keeps a row per client, which is its cluster's model."""

    name = "clustered"
    title = "Clustered FL"
    summary = "FedAvg inside clusters, which split in two where the clients' updates point apart."
    options = ClusteredOptions
    opt: ClusteredOptions

    clusters = PerModel[IntArray]()
    """For each client the smallest member of its cluster. Only the server's process has entries."""

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A row for each client at the server, all from one start."""
        return shared_models(clients, ["cluster"] * len(clients), same_start=True)

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """A row for each client, and two more copies of the updates while they are compared."""
        return Needs(models=clients, updates=clients, pairs=clients, copies=2 * clients)

    def start(self) -> None:
        """Everybody is in one cluster."""
        self.clusters = np.zeros(len(self.bank.owners), dtype=np.int64)

    def round(self, round_index: int) -> Round:
        """Split clusters whose clients pull apart, then do FedAvg in every cluster."""
        visits = self.pull(round_index, self.to_cluster())
        self.train_and_push(round_index, visits)

        # At the server: other processes have no clusters, and nothing comes for them.
        with self.context.clock("update"):
            updates = finite(self.exchange.collect(round_index))
            if round_index > self.opt.min_round:
                self.split(updates)
            posteriors = self.update(updates)
        return Round(posteriors=posteriors)

    def split(self, updates: Updates) -> None:
        """Split every cluster whose clients pull apart in two.

        A cluster waits if an update of one of its members is missing.
        """
        size = self.bank.row_layout.parameters
        for first in np.unique(self.clusters):
            members = np.flatnonzero(self.clusters == first)
            from_members = np.isin(updates.contributors, members)
            sent = updates.take(np.flatnonzero(from_members))
            if len(sent) < len(members) or len(members) <= 2:
                continue

            deltas = sent.rows.as_tensor()[:, :size]  # [members, parameters]
            if self._is_torn(deltas, sent.coefficients):
                other = members[_one_half(deltas)]
                rest = np.setdiff1d(members, other)
                self.clusters[rest] = rest.min()
                self.clusters[other] = other.min()

    def update(self, updates: Updates) -> list[Posterior]:
        """Average inside each cluster.

        Returns each client's posterior over the members of its cluster.
        """
        # Every update goes to the row of the cluster's first member, which all members then copy.
        groups = self.clusters[updates.contributors]
        joined = replace(updates, owners=self.context.count + groups)
        average_into(self.bank, joined)
        rows = self.bank.hosted_rows
        first_members = torch.from_numpy(self.clusters)
        rows.copy_(rows[first_members])

        share = shares(joined.owners, joined.contributors, joined.coefficients)
        posteriors: list[Posterior] = []
        for cluster in self.clusters:
            members = groups == cluster
            posteriors.append(Posterior(updates.contributors[members], share[members]))
        return posteriors

    def predictors(self, round_index: int) -> Mixtures:
        """The model of the client's cluster."""
        return self.read(round_index, self.to_cluster())

    def to_cluster(self) -> Visits:
        """Every hosted client visits the model of its cluster."""
        hosted = self.context.hosted
        return Visits(hosted, self.context.count + hosted)

    def _is_torn(self, deltas: Tensor, samples: FloatArray) -> bool:
        """Whether the average update is short but some are long: the updates cancel each other."""
        share = torch.from_numpy(samples / samples.sum()).to(deltas)  # [members]
        mean = share @ deltas  # [parameters]
        mean_length = float(torch.linalg.vector_norm(mean))
        lengths = torch.linalg.vector_norm(deltas, dim=1)  # [members]
        longest = float(lengths.max())

        rest_below = self.opt.eps1
        if self.opt.relative:
            rest_below = self.opt.eps1 * longest
        restless = longest
        if self.opt.compat == "fedem":
            restless = float(deltas.abs().max())
        return mean_length < rest_below and restless > self.opt.eps2


def _one_half(deltas: Tensor) -> IntArray:
    """The positions of one of two parts, found by complete linkage on 1 - cosine."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics.pairwise import cosine_distances

    distances = cosine_distances(deltas.cpu().numpy())
    clustering = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="complete")
    labels = clustering.fit_predict(distances)  # 0 or 1 for each delta
    return np.flatnonzero(labels)
