"""`federico launch`."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from federico.cli.console import PLAIN, err, out, print_json
from federico.cli.options import Json, Overrides, Quiet, Trust
from federico.cli.signals import leave_on_sigterm
from federico.cli.trust_question import asking_at_terminal
from federico.errors import NetworkError
from federico.runs.comparison import share_in_words, sureness_in_words
from federico.runs.metric import Metric, metric_of
from federico.site.status import Status, describe_posterior, describe_score

if TYPE_CHECKING:
    from federico.site.local_federation import LaunchedPeer

REFRESH_SECONDS = 0.5
SHOWN_COLLABORATORS = 4


def launch(
    peers: Annotated[int, typer.Argument(help="Number of peers.", min=2)],
    file: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    directory: Annotated[
        Path | None,
        typer.Option(help="Folder for certificates and sites (default: a temporary one)."),
    ] = None,
    restarts: Annotated[
        int, typer.Option(help="How often a peer that has died is started again.", min=0)
    ] = 3,
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Try a federation of real peer processes on this machine, with temporary certificates.

    The death of one peer does not end the others: it is shown as gone and started again. With
    --directory the same command resumes what was interrupted; without, nothing is kept.
    """
    from federico.experiment.build import prepare
    from federico.experiment.config import load
    from federico.own_code import trust_if, trusting
    from federico.site.local_federation import (
        check_peer_count,
        open_federation,
        train_alone,
        with_clients,
    )

    leave_on_sigterm()
    with trusting(trust_if(trust)), asking_at_terminal(file):
        experiment = with_clients(load(file, overrides), peers)
        setup = prepare(experiment, experiment.seeds[0])
    check_peer_count(setup, peers)

    try:
        with _folder(directory) as folder:
            site_files = list(open_federation(folder, setup).values())
            with _running_peers(site_files, restarts) as launched:
                _watch(launched, quiet=quiet or json)
            last_statuses = [peer.status for peer in launched]
    except KeyboardInterrupt:
        _say_interrupted(directory)
        sys.exit(130)

    failures = [peer.failure for peer in launched if peer.failure]
    statuses = []
    alone = []
    # As many rounds as the peers have played: they may have been stopped, or have died.
    played = max((status.round for status in last_statuses if status is not None), default=0)
    for status, score in zip(last_statuses, train_alone(setup, max(1, played)), strict=True):
        if status is not None:
            statuses.append(status)
            alone.append(score)

    metric = metric_of(setup.schema.task)
    if json:
        print_json(_result_as_json(statuses, alone, metric))
    elif not quiet:
        out.print(result_table(statuses, alone, metric))
        if directory is not None:
            out.print(f"Sites, logs and personal models are in {directory}", **PLAIN)
    if failures:
        raise NetworkError("\n".join(failures))


def _say_interrupted(directory: Path | None) -> None:
    message = "stopped; nothing is kept. With --directory the same command would resume"
    if directory is not None:
        message = f"stopped; start the same command again to resume from {directory}"
    err.print(message, **PLAIN)


@contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    """The folder for all sites, which is removed at the end unless it was asked for."""
    if directory is not None:
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="federico-") as name:
        yield Path(name)


@contextmanager
def _running_peers(site_files: list[Path], restarts: int) -> Iterator["list[LaunchedPeer]"]:
    """Start the peers; however the block ends, none is left behind."""
    from federico.site.local_federation import LaunchedPeer, stop_peers

    launched: list[LaunchedPeer] = []
    try:
        for site_file in site_files:
            launched.append(LaunchedPeer(site_file, restarts))
        yield launched
    finally:
        stop_peers(launched)


def _watch(peers: "list[LaunchedPeer]", *, quiet: bool) -> None:
    """Show a live table until all peers have ended; those that die are started again."""
    said: dict[str, str] = {}
    with Live(console=err, auto_refresh=False, transient=True) as live:
        while any(peer.active for peer in peers):
            for peer in peers:
                _say_failure(peer, said, quiet=quiet)
                peer.tend()
            if not quiet and err.is_terminal:
                live.update(_progress_table(peers), refresh=True)
            time.sleep(REFRESH_SECONDS)


def _say_failure(peer: "LaunchedPeer", said: dict[str, str], *, quiet: bool) -> None:
    """Say once that a peer is gone, and whether it comes back."""
    failure = peer.failure
    if failure and said.get(peer.name) != failure and not quiet:
        next_step = "it is started again" if peer.comes_back else "it stays away"
        err.print(f"{failure}; {next_step}, the others go on", **PLAIN)
    said[peer.name] = failure


def _progress_table(peers: "list[LaunchedPeer]") -> Table:
    table = Table(title="Peers on this machine")
    for column in ("peer", "phase", "round", "score", "trusts", "MB sent"):
        table.add_column(column)
    for peer in peers:
        status = peer.status
        if status is None:
            table.add_row(peer.name, "starting", "", "", "", "")
            continue
        table.add_row(
            peer.name,
            _phase(peer, status),
            f"{status.round}/{status.rounds}",
            describe_score(status.figures),
            describe_posterior(status.posterior, SHOWN_COLLABORATORS),
            f"{status.sent / 1e6:.2f}",
        )
    return table


def _phase(peer: "LaunchedPeer", status: Status) -> str:
    if peer.comes_back:
        return "gone, starts again"
    if peer.failure:
        return "gone"
    return status.phase


def _result_as_json(
    statuses: list[Status], alone: list[float | None], metric: Metric
) -> dict[str, dict[str, object]]:
    result: dict[str, dict[str, object]] = {}
    for status, alone_score in zip(statuses, alone, strict=True):
        result[status.name] = {
            "federico": status.figures.get(metric.recorded_as),
            "alone": alone_score,
            "together_share": _together_share(status),
            "together_chance": _together_chance(status),
            "posterior": status.posterior,
        }
    return result


def result_table(statuses: list[Status], alone: list[float | None], metric: Metric) -> Table:
    """What each peer has reached with the others and by itself.

    A peer that was never evaluated has no score here.
    """
    table = Table(title=f"{metric.name.capitalize()} on each peer's own test data")
    for column in ("peer", "FedeRiCo", "alone", "predicts", "trusts"):
        table.add_column(column)
    scores = [status.figures.get(metric.recorded_as) for status in statuses]
    for status, score, alone_score in zip(statuses, scores, alone, strict=True):
        table.add_row(
            status.name,
            _format(score, metric),
            _format(alone_score, metric),
            _which(status),
            describe_posterior(status.posterior, SHOWN_COLLABORATORS),
        )

    table.add_section()
    table.add_row(
        "mean",
        _format(_mean(scores), metric),
        _format(_mean(alone), metric),
        "",
        "",
    )
    return table


def _together_share(status: Status) -> float | None:
    """How much the collaborators count; None where the peer trains no model alone."""
    if status.comparison is None:
        return None
    return status.comparison.together_share


def _together_chance(status: Status) -> float | None:
    """How probable it is that the collaborators do better; None where nothing can be said."""
    if status.comparison is None:
        return None
    return status.comparison.together_chance


def _which(status: Status) -> str:
    """Whether the peer predicts together or alone, and how sure it is which is better."""
    share = _together_share(status)
    if share is None:
        return ""
    words = share_in_words(share)
    chance = _together_chance(status)
    if chance is not None:
        words += f", {sureness_in_words(chance)}"
    return words


def _format(score: float | None, metric: Metric) -> str:
    if score is None:
        return ""
    return metric.text(score)


def _mean(scores: list[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    if not known:
        return None
    return sum(known) / len(known)
