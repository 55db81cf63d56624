"""The report of one site: what its peer has said of itself, in one page that opens from disk.

It is read from the state folder alone, while the peer runs or afterwards, and has the same views as
the page of runs and networks. Names and reasons that others have sent are text in it, never HTML.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from federico.report.about_client import ClientEvidence, about_client
from federico.report.text import count, percent
from federico.report.text_table import MISSING, TableCell, TextTable
from federico.runs.atomic import publish_text
from federico.runs.comparison import shown_figure
from federico.runs.layout import Description
from federico.runs.lock import is_locked
from federico.runs.metric import METRICS, metric_in
from federico.runs.table import OURS
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
from federico.ui import plain
from federico.ui.client_view import client_view
from federico.ui.frozen import frozen_document, key_of, packed_view
from federico.ui.network_view import ENDED, ends_soon, site_rounds, site_view
from federico.ui.plain import Plain
from federico.ui.rounds import NoRoundYetError, read_site

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
    evidence = _evidence(status)
    sentence = "" if evidence is None else about_client(evidence)
    running = is_locked(state_folder)
    headline = _headline(status, running=running)

    own = {
        "headline": headline,
        "updated": status.updated,
        "sentence": plain.typeset(sentence),
        "warnings": _warnings(status),
        "remarks": _remarks(status),
        "figures": plain.table(_figures_table(status)) if status.figures else None,
        "members": plain.table(_members_table(status)),
        "client": _client(status, state_folder),
    }
    site = site_view(status.name, state_folder)
    site["phase"] = describe_phase(status, running=running)
    site["well"] = status.phase != "failed" and (running or status.phase in ENDED)
    held = {
        key_of("own"): packed_view(own),
        key_of("network"): packed_view([site]),
        key_of("site", status.name): packed_view(site_rounds(state_folder)),
    }
    page = state_folder / REPORT
    publish_text(page, frozen_document(status.name, {"held": held}))
    return SiteReport(page, headline, sentence)


def _client(status: Status, state_folder: Path) -> Plain | None:
    """Whom the site trusts over the rounds and why; None before its first round."""
    try:
        return client_view(read_site(state_folder, _description(status)), status.name)
    except NoRoundYetError:
        return None


def _description(status: Status) -> Description:
    """What is known of the site, as a simulation says it of its clients."""
    clients = [status.name, *status.members]
    of_others = [0] * len(status.members)
    return Description(
        method=OURS,
        seed=0,
        task=_task(status),
        clients=clients,
        distribution=None,
        train_samples=[status.train_samples or 0, *of_others],
        test_samples=[status.test_samples or 0, *of_others],
        label_names=[],
        label_counts=[],
        model_parameters=0,
        model_bytes=0,
        data_hash="",
        partition_hash="",
        options={OURS: {"evidence": status.judged}},
        versions={},
        command="",
    )


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


def _warnings(status: Status) -> list[str]:
    """What whoever is responsible for the site may have to do something about, a line each."""
    now = time.time()
    lines = []
    if status.error:
        lines.append(f"It ended with an error: {status.error}")
    if status.waits:
        lines.append(f"It waits for {describe_waits(status.waits, now)}.")
    if ends_soon(status, now):
        lines.append(_certificate(status, now))
    return lines


def _remarks(status: Status) -> list[str]:
    """What else they should know, a line each."""
    now = time.time()
    lines = []
    privacy = describe_privacy(status)
    if privacy:
        lines.append(f"{privacy.capitalize()}.")
    if status.certificate_ends is not None and not ends_soon(status, now):
        lines.append(_certificate(status, now))
    return lines


def _certificate(status: Status, now: float) -> str:
    """How long the site's certificate is valid, as a sentence."""
    assert status.certificate_ends is not None, "asked of those that have one"
    renewal = describe_renewal(status.certificate_ends, now)
    return f"{renewal[0].upper()}{renewal[1:]}."


def _figures_table(status: Status) -> TextTable:
    """Every metric on the site's own test data, as used and, where known, alone and together."""
    headings = ["metric", "as it predicts"]
    columns = [status.figures]
    if status.comparison is not None:
        headings += ["alone", "with collaborators"]
        columns += [status.comparison.alone, status.comparison.together]
    lines = []
    for metric in METRICS[_task(status)]:
        if metric.recorded_as not in status.figures:
            continue
        line = [TableCell(plain.typeset(metric.name))]
        for figures in columns:
            line.append(TableCell(shown_figure(metric, figures)))
        lines.append(line)
    title = f"On its own test data after round {status.evaluated}"
    if status.test_samples is not None:
        title += f", {status.test_samples:,} samples"
    return TextTable(title, headings, lines)


def _members_table(status: Status) -> TextTable:
    """The other members: how much they are trusted, whether they are there, their reputation."""
    own = status.posterior.get(status.name)
    trust = MISSING if own is None else TableCell(percent(own))
    lines = [[TableCell(f"{status.name} (this site)"), trust, MISSING, MISSING, MISSING]]
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
            standing += f", {count(member.strikes, 'strike')}"
            if member.reason:
                standing += f", the last for: {member.reason}"
        refusals = describe_refusals(member)
        if refusals:
            standing += f", {refusals}"
        trusted = "not met yet" if weight is None else percent(weight)
        texts = [name, trusted, here, standing, describe_refused(member) or MISSING.text]
        lines.append([TableCell(text) for text in texts])
    headings = ["member", "trust", "presence", "reputation", "what was refused"]
    return TextTable("Members", headings, lines)
