"""One client in words: whom it learns with, why it trusts its own model or does not, what it uses.

Every reason follows from the records: the posterior, which is made of gains on samples that the
client held out, and what it reaches alone and with its collaborators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from federico.report.text import COLLABORATOR, MOST_NAMED, called, count, in_words, listed, percent
from federico.runs.comparison import (
    SET_ELSEWHERE,
    Comparison,
    favours_the_worse,
    share_in_words,
    shown_figure,
    sureness_in_words,
)
from federico.runs.layout import Description
from federico.runs.metric import metric_in
from federico.runs.records import Record
from federico.types import Task

Judged: TypeAlias = Literal["held_out", "training", ""]
"""What a posterior is made of: gains on held-out samples, losses on training samples, or anything
else, of which no reason is known."""

LEAST_SPREAD = 0.05
"""Weight on many models that is worth mentioning though none of them is."""


@dataclass(frozen=True)
class ClientEvidence:
    """What the records of a cell say about one client."""

    client: str
    posterior: Mapping[str, float]
    """How much the client trusts each model that it has met."""
    judged: Judged = ""
    task: Task = "classification"
    train_samples: int | None = None
    comparison: Comparison | None = None
    """What the client reaches alone, together and with what it uses, on its own test data."""

    @property
    def own(self) -> float:
        """The weight of the client's own model."""
        return self.posterior.get(self.client, 0.0)

    @property
    def spread(self) -> float:
        """The weight of all models of others that are no collaborators, recorded or not."""
        if not self.posterior:
            return 0.0
        of_collaborators = sum(self.posterior[peer] for peer in self.collaborators)
        return max(0.0, 1.0 - self.own - of_collaborators)

    @property
    def collaborators(self) -> list[str]:
        """The others whose models carry weight, the most trusted first."""
        found = []
        for peer, weight in self.posterior.items():
            if peer != self.client and weight >= COLLABORATOR:
                found.append(peer)
        return sorted(found, key=lambda peer: -self.posterior[peer])


def evidence_of_all(about: Description, last: Record) -> list[ClientEvidence]:
    """The evidence of all clients of a cell in this record, in their order."""
    # A method without posteriors leaves none, not even empty ones.
    return [evidence_of(about, last, place) for place in range(len(last.posterior))]


def evidence_of(about: Description, last: Record, place: int) -> ClientEvidence:
    """The evidence of the client at this place, which has a posterior in this record."""
    comparison = None
    comparisons = last.comparisons
    if comparisons is not None:
        comparison = comparisons.of(place)
    return ClientEvidence(
        client=about.clients[place],
        posterior=last.posterior[place],
        judged=_judged(about),
        task=about.task,
        train_samples=about.train_samples[place],
        comparison=comparison,
    )


def _judged(about: Description) -> Judged:
    """What the posteriors of a cell are made of, by its options."""
    evidence = about.options.get("federico", {}).get("evidence")
    if about.method == "federico" and evidence in ("held_out", "training"):
        judged: Judged = evidence
        return judged
    return ""


def about_client(evidence: ClientEvidence, groups: Mapping[str, int] | None = None) -> str:
    """Whom the client learns with, why its own model counts or does not, and what it predicts with.

    `groups` are the clients' true distributions, where they are known.
    """
    sentences = [_learns_with(evidence)]
    if groups and evidence.collaborators:
        sentences.append(_right_ones(evidence.client, evidence.collaborators, groups))
    sentences.append(_what_it_uses(evidence))
    return " ".join(sentence for sentence in sentences if sentence)


def _learns_with(evidence: ClientEvidence) -> str:
    """Graz learns with Linz (60 %) and Wels (40 %) and gives its own model no weight, and why."""
    name = called(evidence.client)
    if not evidence.collaborators and evidence.spread >= LEAST_SPREAD:
        return (
            f"{name} spreads {percent(evidence.spread)} of its weight over many models of others, "
            f"none of which has {percent(COLLABORATOR)}, and keeps {percent(evidence.own)} for "
            "its own model."
        )
    if not evidence.collaborators:
        return f"{name} works alone{_why_alone(evidence)}."
    if evidence.own >= COLLABORATOR:
        kept = f"keeps {percent(evidence.own)} for its own model"
        return f"{name} learns with {listed(_named(evidence))} and {kept}."

    kept = f"gives its own model no weight{_why_no_weight(evidence)}"
    return f"{name} learns with {listed(_named(evidence))} and {kept}."


def _named(evidence: ClientEvidence) -> list[str]:
    """The collaborators with their weights, the less trusted of many together."""
    peers = evidence.collaborators
    # "1 other" would take as much room as its name.
    rest: list[str] = []
    if len(peers) > MOST_NAMED + 1:
        rest = peers[MOST_NAMED:]
    named = []
    for peer in peers[: len(peers) - len(rest)]:
        named.append(f"{peer} ({percent(evidence.posterior[peer])})")
    if rest:
        together = sum(evidence.posterior[peer] for peer in rest)
        named.append(f"{len(rest)} others (together {percent(together)})")
    return named


def _why_no_weight(evidence: ClientEvidence) -> str:
    """Why the client's own model carries no weight, as far as the rule tells."""
    trained_on = ""
    if evidence.train_samples is not None:
        trained_on = f", trained on {count(evidence.train_samples, 'sample')} of its own,"
    # Trust is exactly nothing for a nat of harm or more against a guess. Of many clients only the
    # largest weights are recorded: one that is missing is small.
    does_harm = evidence.posterior.get(evidence.client) == 0
    if evidence.judged == "held_out" and does_harm:
        return (
            f" because that model{trained_on} does worse than {_guess(evidence.task)} on the "
            "samples that it held out to judge models"
        )
    if evidence.judged == "held_out":
        return (
            f" because that model{trained_on} explains the samples that it held out to judge "
            "models far less well than theirs do"
        )
    if evidence.judged == "training":
        return " because their models fit its training samples better than its own"
    return ""


def _guess(task: Task) -> str:
    if task == "regression":
        return "their mean"
    return "a guess that only knows how frequent each label is"


def _why_alone(evidence: ClientEvidence) -> str:
    """Why nobody else carries weight, as far as the rule tells."""
    others = [peer for peer in evidence.posterior if peer != evidence.client]
    if not others:
        return ""
    if evidence.judged == "held_out":
        return (
            ": no model of others that it has met comes near its own on the samples that it held "
            "out to judge them"
        )
    if evidence.judged == "training":
        return ": no model of others that it has met fits its training samples nearly as well"
    return ""


def _what_it_uses(evidence: ClientEvidence) -> str:
    """What the client reaches alone and together, and which of the two it predicts with."""
    comparison = evidence.comparison
    if comparison is None:
        return ""
    metric = metric_in(comparison.used)
    alone = shown_figure(metric, comparison.alone)
    used = shown_figure(metric, comparison.used)
    if not evidence.collaborators and comparison.together_share == 0:
        return f"It predicts with the model that it trained alone ({metric.name} {used})."
    together = shown_figure(metric, comparison.together)
    together_with = "collaborators" if evidence.collaborators else "the model it shares"
    words = (
        f"On its test data it reaches {metric.with_article} of {alone} alone, {together} with "
        f"{together_with} and {used} as it predicts, "
        f"{share_in_words(comparison.together_share)}{_which_has_the_rest(comparison)}."
    )
    if evidence.collaborators and comparison.together_chance is not None:
        words += f" By its held-out samples it is {sureness_in_words(comparison.together_chance)}."
    if favours_the_worse(comparison):
        words += f" {SET_ELSEWHERE[0].upper()}{SET_ELSEWHERE[1:]}."
    return words


def _which_has_the_rest(comparison: Comparison) -> str:
    """Who has the rest of a share that is not all."""
    if 0 < comparison.together_share < 1:
        return "; a private model, trained alone, has the rest"
    return ""


def _right_ones(client: str, peers: Sequence[str], groups: Mapping[str, int]) -> str:
    """How many collaborators are of the client's own distribution."""
    of_peers = [groups.get(peer) for peer in peers]
    right = of_peers.count(groups[client])
    total = len(peers)
    if total == 1 and right == 0:
        return "That peer is of another distribution."
    return f"{_how_many(right, total)} of its own distribution."


def _how_many(right: int, total: int) -> str:
    """Some of all collaborators as the subject of a sentence, with its verb."""
    if total == 1:
        return "That peer is"
    if total == 2 and right == 2:
        return "Both are"
    if total == 2 and right == 0:
        return "Neither is"
    if right == total:
        return f"All {in_words(total)} are"
    if right == 0:
        return "None of them is"
    verb = "are"
    if right == 1:
        verb = "is"
    return f"{in_words(right).capitalize()} of the {in_words(total)} {verb}"
