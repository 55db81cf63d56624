"""A run in sentences: the headline, how far it has come, and who learns with whom."""

from collections.abc import Iterator, Mapping, Sequence

from federico.report.old.metric import Metric
from federico.report.old.summary import FEDERICO, Comparison, Summary, true_groups
from federico.runs.layout import Description

COLLABORATOR = 0.01
"""Weight from which a peer is named as a collaborator."""
MOST_NAMED = 5
MOST_CLIENTS = 100
NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def headline(summary: Summary, *, short: bool = False) -> str:
    """The main result in one sentence; `short` for the title of a picture."""
    shown = summary.method(FEDERICO) or summary.best
    if shown is None or shown.mean is None:
        return "Nothing has been evaluated yet."
    metric = summary.metric
    value = metric.text(shown.mean)
    reached = f"{value} accuracy" if metric.higher_is_better else f"a {metric.name} of {value}"
    sentence = f"{shown.title} reaches {reached}" + (
        "" if short else " on the clients' own test data"
    )
    if shown.versus_local:
        sentence += f", {against_local(shown.versus_local, metric)}"
    return sentence if short else f"{sentence}."


def against_local(versus: Comparison, metric: Metric) -> str:
    """How far above or below training alone, and how often better."""
    runs = f"better in {versus.better} of {count(versus.runs, 'run')}"
    if versus.difference == 0:
        return f"the same as training alone ({runs})"
    side = "above" if versus.difference > 0 else "below"
    return f"{metric.distance(versus.difference)} {side} training alone ({runs})"


def trust(summary: Summary) -> str:
    """Where FedeRiCo's posteriors lie; empty for a run without it."""
    federico = summary.method(FEDERICO)
    if federico is None or federico.trust is None:
        return ""
    mean = federico.trust.collaborators
    sentence = f"A client predicts with {mean:.1f} models on average"
    if federico.trust.on_friends is not None:
        sentence += f", and {percent(federico.trust.on_friends)} of its trust lies on clients of its own distribution"
    return f"{sentence}."


def progress(summary: Summary) -> str:
    """What is still missing; empty for a finished run."""
    of = f" of {summary.rounds}" if summary.rounds else ""
    missing = [
        f"{cell.title} with seed {cell.seed} "
        + (f"is at round {cell.round}{of}" if cell.round else "has not begun")
        for cell in summary.pending
    ]
    named = missing[:MOST_NAMED]
    if len(missing) > MOST_NAMED:
        named.append(f"{len(missing) - MOST_NAMED} more")
    return f"Not finished: {listed(named)}." if missing else ""


def collaborators(
    description: Description, posterior: Sequence[Mapping[str, float]]
) -> Iterator[str]:
    """A sentence or two for each client, for the first hundred."""
    groups = dict(zip(description.clients, true_groups(description) or [], strict=False))
    for client, row in list(zip(description.clients, posterior, strict=True))[:MOST_CLIENTS]:
        yield _about(client, row, groups)


def not_listed(clients: int) -> str:
    """Says that a list of clients was cut, where it was."""
    return (
        f"The first {MOST_CLIENTS} of {clients} clients are listed."
        if clients > MOST_CLIENTS
        else ""
    )


def called(client: str) -> str:
    """A client that is a number needs a noun before it."""
    return f"Client {client}" if client.isdecimal() else client


def percent(share: float) -> str:
    """Without decimals, and never rounded to all or nothing unless it is."""
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1 - 1e-3:
        return "more than 99 %"
    return f"{share:.0%}".replace("%", " %")


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 run, 3 runs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(items: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def _about(client: str, row: Mapping[str, float], groups: Mapping[str, int]) -> str:
    found = sorted(
        (peer for peer in row if peer != client and row[peer] >= COLLABORATOR),
        key=lambda peer: -row[peer],
    )
    if not found:
        return f"{called(client)} works alone."
    named = [f"{peer} ({percent(row[peer])})" for peer in found]
    if len(found) > MOST_NAMED + 1:
        rest = found[MOST_NAMED:]
        named[MOST_NAMED:] = [
            f"{len(rest)} others (together {percent(sum(row[peer] for peer in rest))})"
        ]
    own = row.get(client, 0.0)
    kept = (
        f"keeps {percent(own)} for its own model"
        if own >= COLLABORATOR
        else "gives its own model no weight"
    )
    sentence = f"{called(client)} learns with {listed(named)} and {kept}."
    return f"{sentence} {_friends(client, found, groups)}".rstrip()


def _friends(client: str, found: Sequence[str], groups: Mapping[str, int]) -> str:
    """How many collaborators are of the client's own distribution; empty where none is known."""
    if not groups:
        return ""
    right, total = sum(groups[peer] == groups[client] for peer in found), len(found)
    if total == 1:
        return f"That peer is of {'its own' if right else 'another'} distribution."
    if right == total:
        return f"{'Both' if total == 2 else f'All {in_words(total)}'} are of its own distribution."
    if right == 0:
        return f"{'Neither' if total == 2 else 'None of them'} is of its own distribution."
    verb = "is" if right == 1 else "are"
    return (
        f"{in_words(right).capitalize()} of the {in_words(total)} {verb} of its own distribution."
    )


def in_words(number: int) -> str:
    """Small numbers spelled out."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)
