"""From what a round gave to the record of it that is kept."""

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from federico.exchange.protocol import ByteCount, Purpose
from federico.experiment.evaluation import Evaluation
from federico.learning.metrics import Scores
from federico.learning.privacy import PrivacyAccount
from federico.methods.method import Gains, Posterior, Refusals, Round
from federico.runs.records import Record, weights_kept
from federico.types import FloatArray, IntArray

DIGITS = 4
"""Significant digits of what the record of many clients says about their posteriors."""
MANY_CLIENTS = 1000
"""From this many clients on, a record says less: what it says grows with them."""
VERY_MANY_CLIENTS = 10_000
FIGURE_DIGITS = 5
"""Significant digits of the figures of many clients: all digits of ten thousand clients' figures
would take a megabyte a round. Of very many it is one less."""


def record_round(
    round_index: int,
    names: Sequence[str],
    hosted: IntArray,
    clients: int,
    evaluation: Evaluation | None,
    played: Round,
    traffic: Mapping[Purpose, ByteCount],
    distribution: Sequence[int] | None = None,
    account: PrivacyAccount | None = None,
    *,
    whole: bool = True,
) -> Record:
    """The record of a round and its evaluation.

    `names` are those of all clients, then of other owners of models; `hosted` are the clients that
    this process acts for. `distribution` has the clients' true distributions, if they are known.
    `whole`: whether it says all that can be said, however many clients there are.
    """
    figures = None
    alone = None
    together = None
    if evaluation is not None:
        figures = _figures(evaluation.used, clients)
    whole = whole or is_whole(round_index, clients)
    if evaluation is not None and whole:
        alone = _figures(evaluation.alone, clients)
        together = _figures(evaluation.together, clients)
    shares = played.together
    chances = played.together_chance
    if evaluation is not None and evaluation.together_share is not None:
        # Of models as they are after the round.
        shares = evaluation.together_share
        chances = evaluation.together_chance
    together_share = None
    if shares is not None and whole:
        together_share = [_rounded(share) for share in shares.tolist()]
    together_chance = None
    if chances is not None and whole:
        together_chance = _known(chances)

    posterior, effective, on_own = _posteriors(
        played.posteriors, names, hosted, clients, distribution
    )
    standing = None
    refusals = None
    if whole:
        standing, refusals = _refusals(played.refusals, names, clients)
    training = traffic["training"]
    reading = traffic["evaluation"]
    return Record(
        round=round_index,
        figures=figures,
        neighbors=[[names[j] for j in sampled] for sampled in played.neighbors],
        posterior=posterior,
        sent=training.sent[:clients].tolist(),
        received=training.received[:clients].tolist(),
        moved=training.moved,
        evaluation_sent=reading.sent[:clients].tolist(),
        evaluation_received=reading.received[:clients].tolist(),
        evaluation_moved=reading.moved,
        effective_collaborators=effective if whole else None,
        on_own_distribution=on_own if whole else None,
        alone=alone,
        together=together,
        together_share=together_share,
        together_chance=together_chance,
        gains=_gains(played.gains, names, clients),
        standing=standing,
        refusals=refusals,
        epsilon=None if account is None else _spent(account, hosted),
        delta=None if account is None else account.rules.delta,
    )


def is_whole(round_index: int, clients: int) -> bool:
    """Whether the record of this round says all that can be said of this many clients.

    What each is alone and together, what its posterior comes to and whom it has refused is two
    thirds of a record. With a thousand clients it is left out but for rounds 1, 4, 16, 64 and so
    on, and the last.
    """
    if clients < MANY_CLIENTS:
        return True
    power = 1
    while power < round_index:
        power *= 4
    return power == round_index


def _spent(account: PrivacyAccount, hosted: IntArray) -> list[float]:
    return [_rounded(epsilon) for epsilon in account.spent()[hosted].tolist()]


def _figures(scores: Scores | None, clients: int) -> dict[str, list[float | None]] | None:
    if scores is None:
        return None
    return {name: _finite(values, clients) for name, values in scores.figures.items()}


def _posteriors(
    rows: Sequence[Posterior],
    names: Sequence[str],
    hosted: IntArray,
    clients: int,
    distribution: Sequence[int] | None,
) -> tuple[list[dict[str, float]], list[float] | None, list[float] | None]:
    """Each client's weights by name, and where not all are kept, what they come to."""
    kept = weights_kept(clients)
    if kept >= clients:
        return [_by_name(row, names) for row in rows], None, None

    largest = []
    effective = []
    for row in rows:
        order = np.argsort(-row.weights, kind="stable")[:kept]
        weights = np.array([_rounded(weight) for weight in row.weights[order].tolist()])
        largest.append(_by_name(Posterior(row.peers[order], weights), names))
        effective.append(_effective(row.weights))

    # What only a server knows, it says of all clients and not of those it hosts.
    if len(rows) != len(hosted):
        hosted = np.arange(len(rows))
    return largest, effective, _on_own(rows, hosted, clients, distribution)


def _gains(
    judged: Sequence[Gains], names: Sequence[str], clients: int
) -> list[dict[str, float | None]] | None:
    """What each client's models were worth to it; None where nobody judged, or too many did."""
    if not judged or clients > MANY_CLIENTS:
        return None
    found = []
    for each in judged:
        pairs = zip(each.peers.tolist(), each.nats.tolist(), strict=True)
        found.append({names[j]: _rounded(nats) if isfinite(nats) else None for j, nats in pairs})
    return found


def _refusals(
    rows: Sequence[Refusals], names: Sequence[str], clients: int
) -> tuple[list[dict[str, float]] | None, list[dict[str, int]] | None]:
    """The standing of whose updates were refused, and how many; None where none ever was."""
    if not any(len(row.peers) for row in rows):
        return None, None
    standing: list[dict[str, float]] = []
    refusals: list[dict[str, int]] = []
    most = weights_kept(clients)
    for row in rows:
        # With many clients only the lowest standings are written.
        least = np.argsort(row.standing, kind="stable")[:most]
        named = [names[j] for j in row.peers[least].tolist()]
        left = [_rounded(value) for value in row.standing[least].tolist()]
        standing.append(dict(zip(named, left, strict=True)))
        refusals.append(dict(zip(named, row.count[least].tolist(), strict=True)))
    return standing, refusals


def _by_name(row: Posterior, names: Sequence[str]) -> dict[str, float]:
    pairs = zip(row.peers.tolist(), row.weights.tolist(), strict=True)
    return {names[j]: weight for j, weight in pairs}


def _effective(weights: FloatArray) -> float:
    """1 / sum of squared weights; 0 for a posterior over nobody."""
    squares = float((weights**2).sum())
    if squares == 0:
        return 0.0
    return _rounded(1 / squares)


def _on_own(
    rows: Sequence[Posterior],
    hosted: IntArray,
    clients: int,
    distribution: Sequence[int] | None,
) -> list[float] | None:
    """Each client's weight on peers of its own distribution.

    None for models that no client owns.
    """
    if distribution is None:
        return None

    groups = np.asarray(distribution)
    shares = []
    for client, row in zip(hosted.tolist(), rows, strict=True):
        if (row.peers >= clients).any():
            return None
        same = groups[row.peers] == groups[client]
        shares.append(_rounded(float(row.weights[same].sum())))
    return shares


def _rounded(value: float, digits: int = DIGITS) -> float:
    return float(f"{value:.{digits}g}")


def _known(chances: FloatArray) -> list[float | None]:
    """The chances; None for one of which nothing can be said."""
    return [_rounded(chance) if isfinite(chance) else None for chance in chances.tolist()]


def _finite(values: FloatArray, clients: int) -> list[float | None]:
    """The figures, as exactly as this many clients need; None for what is not finite."""
    digits = FIGURE_DIGITS if clients < VERY_MANY_CLIENTS else FIGURE_DIGITS - 1
    found: list[float | None] = []
    for value in values.tolist():
        if not isfinite(value):
            found.append(None)
        elif clients >= MANY_CLIENTS:
            found.append(_rounded(value, digits))
        else:
            found.append(value)
    return found
