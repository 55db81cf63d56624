"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from federico import compat
from federico.cli.doctor import doctor
from federico.cli.export import export
from federico.cli.help import tidy_help
from federico.cli.init import init
from federico.cli.launch import launch
from federico.cli.methods import methods
from federico.cli.options import Json, Overrides, Quiet, Trust
from federico.cli.peer import peer_app
from federico.cli.pki import pki_app
from federico.cli.predict import predict
from federico.cli.relay import relay
from federico.cli.report import report
from federico.cli.reproduce import reproduce
from federico.cli.run import run
from federico.cli.signals import leave_on_closed_pipe
from federico.cli.ui import ui
from federico.errors import FedericoError
from federico.printable import printable

RESUMING = ("run", "reproduce")
"""Commands that leave checkpoints; `launch` and `peer` handle Ctrl-C by themselves."""


class Commands(TyperGroup):
    """Explains what Ctrl-C did, where typer would exit without a word; a closed pipe is no error.

    What each command does on signals is in `signals.py`.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            message = "stopped"
            if ctx.invoked_subcommand in RESUMING:
                message += "; start the same command again to resume from the last checkpoint"
            sys.stderr.write(f"{message}\n")
            sys.exit(130)
        except BrokenPipeError:
            leave_on_closed_pipe()
        return result


app = typer.Typer(
    cls=Commands,
    name="federico",
    help="Decentralised, personalised federated learning with the right collaborators.",
    epilog="Exit codes: 0 success, 1 unexpected error, 2 invalid option or experiment, "
    "3 invalid data, 4 unusable run directory, 5 missing package, 6 invalid key or certificate, "
    "7 network error, 8 peer not running, 130 interrupted, 141 nobody read the output to its end.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Show, list and download data.", no_args_is_help=True)
app.command()(init)
app.command()(run)
app.command()(reproduce)
app.command()(report)
app.command()(ui)
app.command()(predict)
app.command()(export)
app.command()(methods)
app.command()(doctor)
app.add_typer(data_app, name="data")
app.add_typer(pki_app, name="pki")
app.add_typer(peer_app, name="peer")
app.command()(launch)
app.command()(relay)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"federico {installed_version('federico')}")
        raise typer.Exit


@app.callback()
def _federico(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@data_app.command("list")
def data_list(json: Json = False) -> None:
    """List the kinds of data that an experiment can use, and which are on this machine."""
    from federico.cli.data import show_sources

    show_sources(as_json=json)


@data_app.command("show")
def data_show(
    file: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Show the data of an experiment: clients, classes, columns, gaps, and what is odd."""
    from federico.cli.data import show_data

    show_data(file, overrides, trust=trust, as_json=json)


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="cifar10 or cifar100.")],
    url: Annotated[
        str | None, typer.Option(help="Download the archive from this address instead.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="SHA-256 checksum of the archive at that address.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Download a data set into FEDERICO_DATA (or ./data); an interrupted download resumes."""
    from federico.cli.data import get_data

    get_data(name, url=url, sha256=sha256, quiet=quiet)


def main() -> None:
    """Entry point: errors a user can act on become one line and an exit code."""
    compat.let_idle_threads_sleep()
    command = typer.main.get_command(app)
    tidy_help(command)
    try:
        command(prog_name="federico")
    except FedericoError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {printable(line)}\n")
        sys.exit(error.exit_code)
