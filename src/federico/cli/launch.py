"""`federico launch`."""

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.live import Live
from rich.table import Table

from federico.cli.console import PLAIN, err, out, print_json
from federico.experiment.build import Setup, prepare
from federico.experiment.config import load
from federico.site.local import (
    Launched,
    lay_out,
    refuse_failures,
    refuse_other_count,
    start,
    train_alone,
    with_clients,
)
from federico.site.state import Status

REFRESH = 0.5


def launch_experiment(
    peers: int,
    file: Path,
    overrides: list[str],
    directory: Path | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run it to its end, then show what each peer has come to, beside training alone."""
    experiment = with_clients(load(file, overrides), peers)
    setup = prepare(experiment, experiment.seeds[0])
    refuse_other_count(setup, peers)
    with _folder(directory) as folder, _running(list(lay_out(folder, setup).values())) as started:
        _watch(started, quiet=quiet or as_json)
        refuse_failures(started)
        _show(started, setup, quiet=quiet, as_json=as_json)
        if directory is not None and not (quiet or as_json):
            out.print(f"Sites, logs and personal models are in {directory}", **PLAIN)


@contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="federico-") as name:
        yield Path(name)


@contextmanager
def _running(sites: list[Path]) -> Iterator[list[Launched]]:
    """However this ends, no peer is left behind."""
    started: list[Launched] = []
    try:
        started += [start(site) for site in sites]
        yield started
    finally:
        for peer in started:
            if peer.process.poll() is None:
                peer.process.send_signal(signal.SIGTERM)
        for peer in started:
            peer.process.wait()


def _watch(peers: list[Launched], *, quiet: bool) -> None:
    with Live(console=err, auto_refresh=False, transient=True) as live:
        while any(peer.process.poll() is None for peer in peers):
            if not quiet and err.is_terminal:
                live.update(_progress(peers), refresh=True)
            if any(peer.failure() for peer in peers):
                return
            time.sleep(REFRESH)


def _progress(peers: list[Launched]) -> Table:
    table = Table(
        "peer", "phase", "round", "accuracy", "trusts", "MB sent", title="Peers on this machine"
    )
    for peer in peers:
        status = peer.status
        if status is None:
            table.add_row(peer.name, "starting", "", "", "", "")
        else:
            table.add_row(
                peer.name,
                status.phase,
                f"{status.round}/{status.rounds}",
                _score(status.accuracy, status.loss),
                _trusted(status),
                f"{status.sent / 1e6:.2f}",
            )
    return table


def _show(peers: list[Launched], setup: Setup, *, quiet: bool, as_json: bool) -> None:
    statuses = [status for peer in peers if (status := peer.status)]
    alone = train_alone(setup)
    accuracy = setup.schema.task == "classification"
    ours = [status.accuracy if accuracy else status.loss for status in statuses]
    if as_json:
        rows = zip(statuses, ours, alone, strict=True)
        print_json(
            {
                s.name: {"federico": mine, "alone": own, "posterior": s.posterior}
                for s, mine, own in rows
            }
        )
        return
    if quiet:
        return
    title = "Accuracy" if accuracy else "Loss"
    table = Table(
        "peer", "FedeRiCo", "alone", "trusts", title=f"{title} on each peer's own test data"
    )
    for status, mine, own in zip(statuses, ours, alone, strict=True):
        table.add_row(status.name, _value(mine, accuracy), _value(own, accuracy), _trusted(status))
    table.add_section()
    table.add_row("mean", _mean(ours, accuracy), _mean(alone, accuracy), "")
    out.print(table)


def _score(accuracy: float | None, loss: float | None) -> str:
    return _value(loss if accuracy is None else accuracy, accuracy is not None)


def _value(value: float | None, accuracy: bool) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if accuracy else f"{value:.4g}"


def _mean(values: list[float | None], accuracy: bool) -> str:
    known = [value for value in values if value is not None]
    return _value(sum(known) / len(known), accuracy) if known else ""


def _trusted(status: Status) -> str:
    """The heaviest of the posterior."""
    row = sorted(status.posterior.items(), key=lambda item: -item[1])[:4]
    return ", ".join(f"{name} {weight:.0%}" for name, weight in row if weight >= 0.01)
