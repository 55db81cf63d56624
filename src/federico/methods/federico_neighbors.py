"""Whom each of FedeRiCo's peers visits in a round."""

from collections.abc import Sequence

import numpy as np

from federico.algorithm.gains import GainTracker
from federico.algorithm.peer_table import among
from federico.algorithm.sampling import (
    AbsentModels,
    EpsilonGreedy,
    Everyone,
    Sampler,
    Uniform,
    draw_by_weight,
)
from federico.learning.visits import Visits
from federico.methods.context import MethodContext
from federico.methods.federico_evidence import HeldOutEvidence, TrustEvidence
from federico.methods.federico_options import FedericoOptions
from federico.methods.federico_owner import OwnerSide
from federico.methods.method import Posterior
from federico.methods.state import PerPair
from federico.rng import stream
from federico.types import IntArray


class NeighborChoice:
    """Chooses each hosted peer's neighbors by what it knows of the others."""

    absent = PerPair[AbsentModels]()
    """The peers whose models did not come when each hosted peer last wanted them."""

    def __init__(
        self,
        options: FedericoOptions,
        context: MethodContext,
        evidence: TrustEvidence,
        owner_side: OwnerSide,
    ) -> None:
        self.opt = options
        self.context = context
        self.evidence = evidence
        self.owner_side = owner_side
        self.most = options.most_neighbors(context.count)
        self.sampler = _sampler(options, self.most)
        self.absent = {i: AbsentModels() for i in context.hosted.tolist()}

    def neighbors(self, i: int, row: Posterior, round_index: int) -> IntArray:
        """The neighbors of peer i, whose posterior is `row`, in this round."""
        rng = stream(self.context.seed, "sample", self.context.names[i], round_index)
        evidence = self.evidence
        is_greedy = self.opt.sampler == "epsilon_greedy"
        if is_greedy and isinstance(evidence, HeldOutEvidence) and evidence.is_final:
            return self._draw_by_trust(i, row, evidence.gains[i], rng)

        view = evidence.view(i, self.owner_side.standings[i], self.absent[i])
        return self.sampler.sample(view, rng)

    def note_who_came(self, neighbors: Sequence[IntArray], visits: Visits) -> None:
        """Remember which neighbors gave no model, so that others are tried before them."""
        for (i, positions), wanted in zip(visits.by_client(), neighbors, strict=True):
            self.absent[i].note(wanted, visits.owners[positions])

    def _draw_by_trust(
        self, i: int, row: Posterior, gains: GainTracker, rng: np.random.Generator
    ) -> IntArray:
        """Neighbors of a peer whose trust is final.

        Who waits to be evaluated comes first. Then neighbors are drawn by trust, and if few are
        trusted, peers never met are tried.
        """
        absent = self.absent[i].peers
        not_evaluated = gains.peers[~gains.evaluated]
        waiting = not_evaluated[~among(not_evaluated, absent)]
        waiting = waiting[: self.most]
        peers, weights = row.trusted_others(i, self.opt.w_min)
        weights = weights * self.owner_side.standings[i].of(peers)
        drawn = draw_by_weight(peers, weights, self.most - len(waiting), rng)
        chosen = np.union1d(waiting, drawn)
        left = self.most - len(chosen)
        if left == 0 or self.opt.strangers == "cautious":
            return chosen

        is_stranger = np.ones(self.context.count, dtype=bool)
        is_stranger[gains.peers] = False
        is_stranger[i] = False
        strangers = rng.permutation(np.flatnonzero(is_stranger))
        last = among(strangers, absent)
        in_order = np.concatenate([strangers[~last], strangers[last]])
        return np.union1d(chosen, in_order[:left])


def _sampler(options: FedericoOptions, neighbors: int) -> Sampler:
    """The sampler that the options name."""
    if options.sampler == "everyone":
        return Everyone()
    if options.sampler == "uniform":
        return Uniform(neighbors)
    return EpsilonGreedy(neighbors, options.epsilon, options.coin, options.strangers)
