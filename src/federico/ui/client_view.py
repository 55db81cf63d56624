"""One client of a cell: whom it trusts over the rounds and why, its figures, data and bytes."""

from collections.abc import Sequence
from itertools import pairwise

from federico.report.about_client import about_client, evidence_of
from federico.report.drawing import true_groups
from federico.runs.metric import METRICS
from federico.ui import plain
from federico.ui.plain import Plain
from federico.ui.rounds import ShownCell, ShownRound

MOST_SERIES = 12
"""Models whose weight over the rounds is shown: those that ever counted most."""
MOST_MOVES = 3
LEAST_MOVE = 0.05
"""Trust that changes by less in a round is not mentioned."""


def client_view(shown: ShownCell, client: str) -> Plain:
    """All that is shown of one client."""
    about = shown.about
    place = about.clients.index(client)
    return {
        "client": client,
        "sentence": _sentence(shown, place),
        "rounds": [each.round for each in shown.rounds],
        "series": _series(shown.rounds, place),
        "moves": _moves(shown.rounds, place),
        "judged_on": _judged_on(shown, place),
        "figures": _figures(shown, place),
        "train": about.train_samples[place],
        "test": about.test_samples[place],
        "labels": about.label_names,
        "counts": about.label_counts[place] if about.label_counts else [],
        "sent": shown.traffic.sent[place],
        "received": shown.traffic.received[place],
    }


def _sentence(shown: ShownCell, place: int) -> str:
    """Whom it learns with, in words; empty for a method without posteriors over clients."""
    if not shown.knows_trust:
        return ""
    known = None
    truth = true_groups(shown.about.distribution)
    if truth is not None:
        known = dict(zip(shown.about.clients, truth, strict=True))
    return about_client(evidence_of(shown.about, shown.last)[place], known)


def _judged_on(shown: ShownCell, place: int) -> str:
    """The samples that models are judged on, in words."""
    if not shown.last.posterior:
        return ""
    judged = evidence_of(shown.about, shown.last)[place].judged
    words = {"held_out": "samples that it held out of training", "training": "its training samples"}
    return words.get(judged, "")


def _series(rounds: Sequence[ShownRound], place: int) -> list[Plain]:
    """The models that the client ever trusted most, with their weight in each round in percent."""
    highest: dict[str, float] = {}
    for each in rounds:
        if not each.posterior:
            continue
        for owner, weight in each.posterior[place].items():
            highest[owner] = max(weight, highest.get(owner, 0.0))
    owners = sorted(highest, key=lambda owner: -highest[owner])

    found = []
    for owner in owners[:MOST_SERIES]:
        if highest[owner] < 0.01:
            continue
        weights = []
        for each in rounds:
            weight = each.posterior[place].get(owner, 0.0) if each.posterior else 0.0
            weights.append(round(100 * weight, 1))
        found.append({"owner": owner, "weights": weights})
    return found


def _moves(rounds: Sequence[ShownRound], place: int) -> list[Plain]:
    """The rounds in which its trust moved most, and whose models it judged then."""
    moves: list[Plain] = []
    for before, now in pairwise(rounds):
        if not (before.posterior and now.posterior):
            continue
        old = before.posterior[place]
        new = now.posterior[place]
        for owner in sorted(old.keys() | new.keys()):
            earlier = old.get(owner, 0.0)
            later = new.get(owner, 0.0)
            if abs(later - earlier) < LEAST_MOVE:
                continue
            moves.append(
                {
                    "round": now.round,
                    "owner": owner,
                    "before": round(earlier, 3),
                    "after": round(later, 3),
                    "judged": now.neighbors[place] if now.neighbors else [],
                }
            )
    moves.sort(key=lambda move: -abs(move["after"] - move["before"]))
    return moves[:MOST_MOVES]


def _figures(shown: ShownCell, place: int) -> list[Plain]:
    """Every metric over the evaluated rounds: of what the client uses, and of it alone."""
    found = []
    for metric in METRICS[shown.about.task]:
        places = []
        used = []
        alone_rounds = []
        alone = []
        for each in shown.rounds:
            if each.figures is None or metric.recorded_as not in each.figures:
                continue
            places.append(each.round)
            used.append(plain.number(each.figures[metric.recorded_as][place]))
            if each.alone is not None:
                alone_rounds.append(each.round)
                alone.append(plain.number(each.alone[metric.recorded_as][place]))
        if places:
            line = plain.metric(metric)
            line |= {"rounds": places, "used": used, "alone_rounds": alone_rounds, "alone": alone}
            found.append(line)
    return found
