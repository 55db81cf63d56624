"""The report of one site: what its peer has said of itself, in one page that opens from disk.

It is read from the state folder alone, while the peer runs or afterwards. Names and reasons that
others have sent are text in it, never HTML.
"""

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from federico.report.about_client import ClientEvidence, about_client
from federico.report.dark import darken
from federico.report.drawing import render
from federico.report.site_pictures import site_pictures
from federico.report.tables import NOTHING
from federico.report.text import percent
from federico.runs.atomic import publish_text
from federico.runs.comparison import Comparison, shown_figure
from federico.runs.lock import is_locked
from federico.runs.metric import METRICS, metric_in
from federico.runs.records import read_records
from federico.site.status import (
    Status,
    describe_phase,
    describe_privacy,
    describe_refusals,
    describe_refused,
    describe_renewal,
    describe_waits,
    read_status,
)
from federico.types import Task
from federico.ui.static_files import STATIC, STYLE, digest

REPORT = "report.html"


@dataclass(frozen=True)
class SiteReport:
    """What the report of a site says in words, and where its page is."""

    page: Path
    headline: str
    sentence: str
    """Whom the site learns with and why, and what it predicts with; empty before it knows."""


def write_site_report(state_folder: Path) -> SiteReport:
    """Write `report.html` into the state folder of a site."""
    status = read_status(state_folder)
    sentence = ""
    pictures: list[Figure] = []
    evidence = _evidence(status)
    if evidence is not None:
        sentence = about_client(evidence)
        pictures = list(site_pictures(evidence, read_records(state_folder)))

    headline = _headline(status, running=is_locked(state_folder))
    page = state_folder / REPORT
    publish_text(page, _page(status, headline, sentence, pictures))
    return SiteReport(page, headline, sentence)


def _evidence(status: Status) -> ClientEvidence | None:
    """What is known of the site after its last round; None before the first."""
    if not status.posterior:
        return None
    return ClientEvidence(
        client=status.name,
        posterior=status.posterior,
        judged=status.judged,
        task=_task(status),
        train_samples=status.train_samples,
        comparison=status.comparison,
    )


def _task(status: Status) -> Task:
    return "regression" if metric_in(status.figures).explains_variance else "classification"


def _headline(status: Status, *, running: bool) -> str:
    return (
        f"{status.name} in {status.federation}: {describe_phase(status, running=running)}, "
        f"round {status.round} of {status.rounds}"
    )


def _page(status: Status, headline: str, sentence: str, pictures: Sequence[Figure]) -> str:
    style = (STATIC / STYLE).read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    written = datetime.fromtimestamp(status.updated).astimezone()
    parts = [f"<h1>{escape(headline)}</h1>"]
    parts.append(f'<p class="soft">As the peer said at {written:%F %T}.</p>')
    if sentence:
        parts.append(f'<p class="note">{escape(sentence)}</p>')
    parts += [f"<p>{escape(line)}</p>" for line in _remarks(status)]
    if status.figures:
        parts.append(_figures_table(status))
    parts += [_picture(figure) for figure in pictures]
    parts += [_members_table(status), _traffic_table(status)]
    inside = "\n".join(parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{escape(status.name)} - FedeRiCo site report</title>
<style>{style}</style>
</head>
<body>
<header><p class="brand">FedeRiCo</p></header>
<main>
{inside}
</main>
</body>
</html>
"""


def _remarks(status: Status) -> list[str]:
    """What else whoever is responsible for the site should know, a line each."""
    now = time.time()
    lines = []
    if status.error:
        lines.append(f"It ended with an error: {status.error}")
    if status.waits:
        lines.append(f"It waits for {describe_waits(status.waits, now)}.")
    privacy = describe_privacy(status)
    if privacy:
        lines.append(f"{privacy.capitalize()}.")
    if status.certificate_ends is not None:
        renewal = describe_renewal(status.certificate_ends, now)
        lines.append(f"{renewal[0].upper()}{renewal[1:]}.")
    return lines


def _figures_table(status: Status) -> str:
    """Every metric on the site's own test data, as used and, where known, alone and together."""
    headings = ["metric", "as it predicts"]
    if status.comparison is not None:
        headings += ["alone", "with collaborators"]
    lines = []
    for metric in METRICS[_task(status)]:
        if metric.recorded_as not in status.figures:
            continue
        line = [metric.name]
        for figures in _columns(status, status.comparison):
            line.append(shown_figure(metric, figures))
        lines.append(line)
    title = f"On its own test data after round {status.evaluated}"
    if status.test_samples is not None:
        title += f", {status.test_samples:,} samples"
    return _table(title, headings, lines)


def _columns(status: Status, comparison: Comparison | None) -> list[dict[str, float | None]]:
    columns = [status.figures]
    if comparison is not None:
        columns += [comparison.alone, comparison.together]
    return columns


def _members_table(status: Status) -> str:
    """The other members: how much they are trusted, whether they are there, their reputation."""
    lines = []
    own = status.posterior.get(status.name)
    trust = NOTHING if own is None else percent(own)
    lines.append([f"{status.name} (this site)", trust, "", "", ""])
    for name, member in status.members.items():
        weight = status.posterior.get(name)
        here = "here"
        if not member.here and member.last_seen is None:
            here = "not seen yet"
        elif not member.here and member.last_seen is not None:
            seen = datetime.fromtimestamp(member.last_seen).astimezone()
            here = f"away since {seen:%F %T}"
        standing: str = member.reputation
        if member.strikes:
            standing += f", {member.strikes} strikes, the last for: {member.reason}"
        refusals = describe_refusals(member)
        if refusals:
            standing += f", {refusals}"
        trust = "not met yet" if weight is None else percent(weight)
        lines.append([name, trust, here, standing, describe_refused(member)])
    headings = ["member", "trust", "presence", "reputation", "what was refused"]
    return _table("Members", headings, lines)


def _traffic_table(status: Status) -> str:
    lines = [
        ["to train", _megabytes(status.sent), _megabytes(status.received)],
        [
            "to evaluate and predict",
            _megabytes(status.evaluation_sent),
            _megabytes(status.evaluation_received),
        ],
    ]
    return _table("Models and updates over the network", ["MB", "sent", "received"], lines)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def _table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = []
    for line in lines:
        cells = ""
        for heading, cell in zip(headings[1:], line[1:], strict=True):
            # Where the page is narrow each cell stands below the last, with its heading beside it.
            cells += f'<td data-heading="{escape(heading)}">{escape(cell)}</td>'
        body.append(f'<tr><th scope="row">{escape(line[0])}</th>{cells}</tr>')
    return (
        f'<div class="card" tabindex="0" role="region" aria-label="{escape(title)}">'
        f'<table class="stacked"><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _picture(figure: Figure) -> str:
    """The figure as it is, and for a dark page."""
    title = figure.get_suptitle()
    light = _address(render(figure))
    darken(figure)
    dark = _address(render(figure))
    return (
        '<figure class="card picture"><picture>'
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(title)}"></picture></figure>'
    )


def _address(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"
