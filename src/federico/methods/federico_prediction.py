"""What FedeRiCo's peers predict with: their posterior over models, as these are now."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from federico.algorithm.mixture import capped
from federico.algorithm.posterior import significant
from federico.learning.visits import Visits
from federico.methods.federico_evidence import TrustEvidence
from federico.methods.federico_private import PrivateModels
from federico.methods.method import Mixtures, Posterior
from federico.types import FloatArray, IntArray


def significant_models(
    posteriors: Mapping[int, Posterior], least: float
) -> tuple[Visits, FloatArray]:
    """The models that peers predict with, and their weights, of which none is below `least`.

    A peer whose posterior has no weight at all predicts with its own model.
    """
    clients: list[IntArray] = []
    owners: list[IntArray] = []
    weights: list[FloatArray] = []
    for i, row in posteriors.items():
        share = significant(row.weights, least)
        has_weight = share > 0
        peers = row.peers[has_weight]
        share = share[has_weight]
        if len(peers) == 0:
            peers = np.array([i])
            share = np.ones(1)

        clients.append(np.full(len(peers), i))
        owners.append(peers)
        weights.append(share)
    visits = Visits(np.concatenate(clients), np.concatenate(owners))
    return visits, np.concatenate(weights)


def as_trusted_now(
    mixtures: Mixtures, hosted: IntArray, evidence: TrustEvidence, private: PrivateModels | None
) -> Mixtures:
    """The mixtures of the models that could be fetched, judged again, capped and calibrated.

    `private` is what each peer trained alone, where peers do.
    """
    mixtures = _with_own(mixtures, hosted)
    visits = mixtures.visits
    weights = mixtures.weights
    now = evidence.judge_now(visits)
    if now is not None:
        weights = evidence.weights_now(visits, weights, now)
    weights = _capped(visits, weights, evidence.opt.w_max)

    alone = None
    if private is not None:
        together = private.predicting
        chance = private.chance
        if now is not None:
            together, chance = private.judge_now(visits, weights, now)
        alone = private.trained_alone(together, chance)

    # What has no weight must not count, not even where it is not a number.
    kept = np.flatnonzero(weights > 0)
    visits = visits[kept]
    if now is not None:
        now = now.take(kept)
    calibration = evidence.calibration(visits, now)
    return replace(
        mixtures, visits=visits, weights=weights[kept], calibration=calibration, alone=alone
    )


def _with_own(mixtures: Mixtures, hosted: IntArray) -> Mixtures:
    """The same mixtures, in which every peer's own model has a place, if without a weight."""
    visits = mixtures.visits
    have_own = visits.clients[visits.are_own]
    missing = np.setdiff1d(hosted, have_own)
    clients = np.concatenate([visits.clients, missing])
    owners = np.concatenate([visits.owners, missing])
    weights = np.concatenate([mixtures.weights, np.zeros(len(missing))])

    order = np.lexsort((owners, clients))  # by client, then by owner
    visits = Visits(clients, owners)[order]
    return replace(mixtures, visits=visits, weights=weights[order])


def _capped(visits: Visits, weights: FloatArray, most: float) -> FloatArray:
    """The weights, [visits], without too large a one of one other peer's model."""
    result = np.zeros(len(weights))
    for i, positions in visits.by_client():
        is_own = visits.owners[positions] == i
        result[positions] = capped(weights[positions], is_own, most)
    return result
