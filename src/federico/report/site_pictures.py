"""The pictures of a site's report: its figure over the rounds, and whose models it trusts."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from federico.report.about_client import ClientEvidence
from federico.report.drawing import METHOD_COLORS, clean, legend_below, sheet, whole_numbers
from federico.report.posteriors import LABEL, Posteriors, named_lines
from federico.runs.metric import metric_in
from federico.runs.records import Record

WIDTH = 5.2
HEIGHT = 3.9
"""Narrow, so that letters can be read on a phone."""


def site_pictures(evidence: ClientEvidence, records: Sequence[Record]) -> Iterator[Figure]:
    """All pictures that the records of a peer allow; one round alone makes no line."""
    evaluated = [record for record in records if record.figures is not None]
    if len(evaluated) > 1:
        yield over_rounds(evidence.client, evaluated)
    if len(records) > 1:
        yield trust(evidence, records)


def over_rounds(site: str, evaluated: Sequence[Record]) -> Figure:
    """What the site reaches on its own test data: as it predicts, alone and with collaborators."""
    metric = metric_in(evaluated[-1].figures or {})
    figure = sheet(WIDTH, HEIGHT, f"{metric.name.capitalize()} of {site} on its own test data")
    axes = figure.add_subplot()
    lines = (
        ("as it predicts", METHOD_COLORS["federico"], "-", [each.figures for each in evaluated]),
        ("alone", METHOD_COLORS["local"], "--", [each.alone for each in evaluated]),
        (
            "with collaborators",
            METHOD_COLORS["fedavg_plus"],
            "-.",
            [each.together for each in evaluated],
        ),
    )
    for label, color, style, by_round in lines:
        rounds = []
        values = []
        for record, figures in zip(evaluated, by_round, strict=True):
            if figures is not None:
                rounds.append(record.round)
                values.append(metric.drawn(metric.of_clients(figures)[0]))
        if rounds:
            axes.plot(rounds, values, color=color, linestyle=style, linewidth=2, label=label)
    axes.set(xlabel="round", ylabel=metric.axis)
    whole_numbers(axes)
    clean(axes, "y")
    legend_below(figure, axes.get_lines(), columns=3)
    return figure


def trust(evidence: ClientEvidence, records: Sequence[Record]) -> Figure:
    """How much the site trusts each model that it has met, over the rounds."""
    shown = Posteriors(
        title="FedeRiCo",
        seed=0,
        clients=[evidence.client],
        distributions=None,
        rounds=[record.round for record in records],
        by_client={0: [record.posterior[0] for record in records]},
        latest=[records[-1].posterior[0]],
        evidence=[evidence],
    )
    figure = sheet(WIDTH, HEIGHT, "Trust over the rounds")
    axes = figure.add_subplot()
    named_lines(axes, shown, 0)
    axes.set(xlabel="round", ylabel=LABEL)
    legend_below(figure, axes.get_lines(), columns=3)
    return figure
