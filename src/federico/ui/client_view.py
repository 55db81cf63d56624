"""One client of a cell: whom it trusts over the rounds and why, its figures, data and bytes."""

import math
from itertools import pairwise

import numpy as np

from federico.report.about_client import about_client, evidence_of
from federico.runs.metric import METRICS
from federico.runs.records import weights_kept
from federico.ui import plain
from federico.ui.cell_view import is_shared_out, of_rounds, phases, share_of_client
from federico.ui.plain import Plain
from federico.ui.rounds import ShownCell, ShownRound

MOST_SERIES = 12
"""Models whose weight over the rounds is shown: those that ever counted most."""
MOST_MOVES = 3
LEAST_MOVE = 0.05
"""Trust that changes by less in a round is not mentioned."""
LEAST_SHOWN = 0.01
"""A model that never had more weight than this is not drawn."""
JUDGED_ON = {"held_out": "samples that it held out of training", "training": "its training samples"}


def client_view(shown: ShownCell, client: str) -> Plain:
    """All that is shown of one client."""
    about = shown.about
    place = about.clients.index(client)
    sentence = ""
    judged = ""
    if shown.last.posterior:
        evidence = evidence_of(about, shown.last, place)
        judged = JUDGED_ON.get(evidence.judged, "")
        if shown.knows_trust:
            sentence = plain.typeset(about_client(evidence, shown.known_groups))
    traffic = shown.traffic
    return {
        "client": client,
        "sentence": sentence,
        "last_round": shown.last.round,
        "rounds": [each.round for each in shown.rounds],
        "series": _series(shown, place),
        "moves": _moves(shown, place),
        "judged_on": judged,
        "figures": _figures(shown, place),
        "train": about.train_samples[place],
        "test": about.test_samples[place],
        "labels": about.label_names,
        "counts": about.label_counts[place] if about.label_counts else [],
        "sent": traffic.sent[place],
        "received": traffic.received[place],
        "evaluation_sent": traffic.evaluation_sent[place],
        "evaluation_received": traffic.evaluation_received[place],
        "traffic": _traffic(shown, place),
        "phases": _phases(shown, place),
    }


def _phases(shown: ShownCell, place: int) -> dict[str, list[float]]:
    """The seconds of each phase, in each shown round, that are the share of the client."""
    spent = of_rounds(shown.spent, shown.rounds)
    if not is_shared_out(spent, len(shown.about.clients)):
        return {}
    return phases([share_of_client(each, place) for each in spent])


def _traffic(shown: ShownCell, place: int) -> list[list[int]]:
    """Bytes in each shown round: sent and received to train, sent and received to evaluate."""
    by_round = [each.traffic[:, place] for each in shown.rounds]
    lines: list[list[int]] = np.stack(by_round, axis=1).tolist()
    return lines


def _series(shown: ShownCell, place: int) -> list[Plain]:
    """The models that the client ever trusted most, with their weight in each round in percent."""
    rounds = shown.rounds
    trusted = [each.trust.of(place) for each in rounds]
    # Of thousands of models a client ever trusts a few: the others get no row.
    met = np.unique(np.concatenate([owners for owners, _ in trusted]))
    weights = np.zeros((len(met), len(rounds)), np.float32)  # [met, rounds]
    for column, (owners, given) in enumerate(trusted):
        weights[np.searchsorted(met, owners), column] = given
    highest = weights.max(axis=1)
    # Of many clients only the largest weights are recorded: one that is missing is small.
    count = len(shown.about.clients)
    is_cut = weights_kept(count) < count

    found = []
    for row in np.argsort(-highest, kind="stable")[:MOST_SERIES].tolist():
        if highest[row] < LEAST_SHOWN:
            break
        in_percent: list[float | None] = []
        for weight in weights[row].tolist():
            in_percent.append(None if weight == 0 and is_cut else round(100 * weight, 1))
        found.append({"owner": shown.owners.names[met[row]], "weights": in_percent})
    return found


def _moves(shown: ShownCell, place: int) -> list[Plain]:
    """The rounds in which its trust moved most, and what it found when it judged models then.

    The latest stand last; in each round the model whose weight changed most comes first.
    """
    moves: list[Plain] = []
    for before, now in pairwise(shown.rounds):
        old = _row(before, place)
        new = _row(now, place)
        if not (old and new):
            continue
        changes: list[Plain] = []
        for owner in sorted(old.keys() | new.keys()):
            earlier = old.get(owner, 0.0)
            later = new.get(owner, 0.0)
            if abs(later - earlier) < LEAST_MOVE:
                continue
            changes.append(
                {
                    "owner": shown.owners.names[owner],
                    "before": round(earlier, 3),
                    "after": round(later, 3),
                }
            )
        if changes:
            changes.sort(key=_least_change_last)
            moves.append(
                {
                    "round": now.round,
                    "since": before.round,
                    "changes": changes,
                    "judged": _judged(now, place),
                }
            )
    moves.sort(key=lambda move: _least_change_last(move["changes"][0]))
    return sorted(moves[:MOST_MOVES], key=lambda move: int(move["round"]))


def _least_change_last(change: Plain) -> float:
    return -abs(float(change["after"]) - float(change["before"]))


def _row(shown: ShownRound, place: int) -> dict[int, float]:
    """The posterior of the client by number of owner."""
    owners, weights = shown.trust.of(place)
    return dict(zip(owners.tolist(), weights.tolist(), strict=True))


def _judged(shown: ShownRound, place: int) -> list[Plain]:
    """The models that the client judged, the best first, with what they were worth if known."""
    found: list[Plain] = []
    if shown.gains is not None and place < len(shown.gains):
        for owner, gain in shown.gains[place].items():
            found.append({"owner": owner, "gain": plain.number(gain)})
        found.sort(key=lambda each: -_or_least(each["gain"]))
        return found
    if place < len(shown.neighbors):
        for owner in shown.neighbors[place]:
            found.append({"owner": owner, "gain": None})
    return found


def _or_least(gain: float | None) -> float:
    """The gain; a model without one has been useless."""
    return -math.inf if gain is None else gain


def _figures(shown: ShownCell, place: int) -> list[Plain]:
    """Every metric over the evaluated rounds: of what it uses, alone and with collaborators."""
    found = []
    for metric in METRICS[shown.about.task]:
        places = []
        used = []
        alone_rounds = []
        alone = []
        together = []
        for each in shown.rounds:
            if each.figures is None or metric.recorded_as not in each.figures:
                continue
            places.append(each.round)
            used.append(plain.number(each.figures[metric.recorded_as][place]))
            if each.alone is not None and each.together is not None:
                alone_rounds.append(each.round)
                alone.append(plain.number(each.alone[metric.recorded_as][place]))
                together.append(plain.number(each.together[metric.recorded_as][place]))
        if places:
            line = plain.metric(metric)
            line |= {"rounds": places, "used": used, "alone_rounds": alone_rounds, "alone": alone}
            line["together"] = together
            found.append(line)
    return found
