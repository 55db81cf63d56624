"""`federico relay`."""

from pathlib import Path
from typing import Annotated

import typer

from federico.cli.logs import Log, LogStyle, logging_to
from federico.cli.options import Quiet
from federico.cli.signals import stop_on_signals


def relay(
    federation: Annotated[Path, typer.Argument(help="Federation file (TOML).")],
    name: Annotated[str, typer.Option(help="The relay's name, as in the federation's relays.")],
    listen: Annotated[
        list[str],
        typer.Option(metavar="HOST:PORT", help="Address to listen on, such as 0.0.0.0:7447."),
    ],
    keys: Annotated[Path, typer.Option(help="Folder of the relay's key and certificate.")] = Path(
        "keys"
    ),
    quiet: Quiet = False,
    log: Log = LogStyle.TEXT,
) -> None:
    """Relay messages for sites that can only dial out.

    Needs no data, but sees who talks to whom.
    """
    from federico.site.relay import run_relay

    with logging_to(None, quiet=quiet, style=log):
        run_relay(federation, name, keys, listen, stop_on_signals())
