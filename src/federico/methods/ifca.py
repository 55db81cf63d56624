"""IFCA (Ghosh et al. 2020), also HypCluster (Mansour et al. 2020): every client picks a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import PositiveInt

from federico.learning.visits import Visits
from federico.methods.method import Method, Mixtures, Needs, Posterior, Round
from federico.methods.model_owners import ModelOwner, shared_models
from federico.options import Options


class IfcaOptions(Options):
    """Options of IFCA."""

    clusters: PositiveInt = 4
    """How many models all clients choose from; with 1 it is FedAvg."""


class Ifca(Method):
    """A few models from different starts; FedAvg among the clients that pick the same one."""

    name = "ifca"
    title = "IFCA"
    summary = "Every round each client picks the shared model with the least loss on its own data."
    options = IfcaOptions
    opt: IfcaOptions

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A model for each cluster, counted from 1; the first starts where FedAvg does."""
        titles = [f"cluster {m + 1}" for m in range(options.clusters)]
        return shared_models(clients, titles)

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """A model for each cluster; a client may come to train all of them, one in a round."""
        pairs = clients * options.clusters
        return Needs(models=options.clusters, updates=clients, pairs=pairs)

    def round(self, round_index: int) -> Round:
        """Everybody pulls all models and trains the best; a model that nobody picked stays."""
        visits = self.pull(round_index, self.to_shared())
        with self.context.clock("e_step"):
            picked = self.pick(visits)
        self.train_and_push(round_index, picked)
        self.collect_and_average(round_index)
        posteriors = [Posterior(owner, np.ones(1)) for owner in picked.owners[:, None]]
        return Round(posteriors=posteriors)

    def pick(self, visits: Visits) -> Visits:
        """Each client's visit to the model with the least mean loss on its *training* data.

        Public code picks by the loss on test data, which a client cannot know.
        """
        clusters = self.opt.clusters
        losses = self.learner.evaluate(self.bank, visits)
        losses = np.where(np.isfinite(losses), losses, np.inf)

        # Visits are ordered by client, and each client visits all clusters in turn.
        by_client = losses.reshape(-1, clusters)  # [hosted clients, clusters]
        best = by_client.argmin(axis=1)
        first_visits = np.arange(0, len(visits), clusters)
        return visits[first_visits + best]

    def predictors(self, round_index: int) -> Mixtures:
        """The model that is now the best on the client's training data."""
        visits = self.read(round_index, self.to_shared()).visits
        picked = self.pick(visits)
        return Mixtures(self.bank, picked, np.ones(len(picked)))
