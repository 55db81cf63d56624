"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from federico import compat
from federico.cli.launch import launch
from federico.cli.options import Json, Overrides, Quiet
from federico.cli.peer import peer_app
from federico.cli.pki import pki_app
from federico.cli.relay import relay
from federico.compare import presets
from federico.errors import FedericoError


class Commands(TyperGroup):
    """Says what Ctrl-C means; typer would leave without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.stderr.write(
                "stopped; start the same command again to go on from the last checkpoint\n"
            )
            sys.exit(130)


app = typer.Typer(
    cls=Commands,
    name="federico",
    help="Decentralised, personalised federated learning with the right collaborators.",
    epilog="Exit codes: 0 fine, 1 unexpected, 2 wrong option or experiment, 3 wrong data, 4 run directory unusable, "
    "5 package missing, 6 wrong key or certificate, 7 network, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Get and list data sets.", no_args_is_help=True)
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
            "--version", callback=_show_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    pass


Rows = Annotated[
    list[str], typer.Option("--row", help="Run this row only; may be given several times.")
]
Columns = Annotated[
    list[str], typer.Option("--column", help="Run this column only; may be given several times.")
]
Rates = Annotated[
    list[str], typer.Option("--at", help="Run at this learning rate only: given or best.")
]
Jobs = Annotated[int, typer.Option(help="Runs at a time, each in a process of its own.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Run nothing but a miniature; say how long it would take.")
]
Save = Annotated[
    bool, typer.Option("--save", help="Add result and figures to results/<name>.json and .png.")
]
Directory = Annotated[Path, typer.Option(help="Where run directories are kept.")]


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    name: Annotated[
        str, typer.Option(help="Name of the run directory; the file's name if not given.")
    ] = "",
    directory: Directory = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run an experiment; a stopped one goes on where it was, a finished one says so."""
    from federico.cli.run import run_experiment

    named = [*overrides, *([f'name="{name}"'] if name else [])]
    run_experiment(file, named, directory, quiet=quiet, as_json=json)


@app.command()
def compare(
    file: Annotated[
        Path, typer.Argument(help="Experiment file (TOML), with a table `compare` or without.")
    ],
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    row: Rows = [],  # noqa: B006
    column: Columns = [],  # noqa: B006
    at: Rates = [],  # noqa: B006
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    save: Save = False,
    directory: Directory = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run every method in every column on every seed; a stopped comparison goes on where it was."""
    from federico.cli.compare import Wishes, compare_file

    compare_file(
        file, Wishes(overrides, row, column, at, jobs, dry_run, save, directory, quiet, json)
    )


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(presets.names())}.")],
    scale: Annotated[
        float, typer.Option(help="Part of the rounds and seeds to run, for a smaller budget.")
    ] = 1.0,
    overrides: Overrides = [],  # noqa: B006
    row: Rows = [],  # noqa: B006
    column: Columns = [],  # noqa: B006
    at: Rates = [],  # noqa: B006
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    save: Save = False,
    directory: Directory = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a table or figure of the paper with its settings, and show the paper's figures beside ours."""
    from federico.cli.compare import Wishes, reproduce_preset

    wishes = Wishes(overrides, row, column, at, jobs, dry_run, save, directory, quiet, json)
    reproduce_preset(name, scale, wishes)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write report.html and figures for a run, and print its table."""
    from federico.cli.run import write_run_report

    write_run_report(run, quiet=quiet, as_json=json)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Run directory, or one client's folder.")],
    file: Annotated[Path, typer.Argument(help="New data: CSV, Parquet or npz.")],
    client: Annotated[
        str, typer.Option(help="Whose personal model; not needed with a client's folder.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where to write (.csv or .parquet); <file>-predictions.csv if not given."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="Which method's model.")] = "federico",
    seed: Annotated[
        int | None, typer.Option(help="Which seed's model; the first if not given.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict with one client's personal model; writes labels and probabilities."""
    from federico.cli.predict import predict_file

    written = predict_file(run, file, client=client, output=output, method=method, seed=seed)
    written.show(quiet=quiet, as_json=json)


@app.command()
def methods(
    own: Annotated[
        list[str] | None,
        typer.Argument(help="Your own methods instead of the built-in ones: file.py:Class."),
    ] = None,
    json: Json = False,
) -> None:
    """List the methods and their options."""
    from federico.cli.methods import show_methods

    show_methods(own or (), as_json=json)


@data_app.command("list")
def data_list(json: Json = False) -> None:
    """List the kinds of data an experiment can name, and which are here."""
    from federico.cli.data import show_sources

    show_sources(as_json=json)


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="cifar10 or cifar100.")],
    url: Annotated[str | None, typer.Option(help="Another copy of the archive.")] = None,
    md5: Annotated[str | None, typer.Option(help="Checksum of that copy.")] = None,
    quiet: Quiet = False,
) -> None:
    """Download a data set into FEDERICO_DATA (or ./data); a cut download goes on where it was."""
    from federico.cli.data import get_data

    get_data(name, url=url, md5=md5, quiet=quiet)


@app.command()
def doctor(
    file: Annotated[Path | None, typer.Argument(help="Experiment file to check.")] = None,
    overrides: Overrides = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Check this machine, and whether an experiment is valid and fits into its memory."""
    from federico.cli.doctor import examine

    examine(file, overrides, as_json=json)


def main() -> None:
    """Entry point: errors a user can act on become one line and an exit code."""
    compat.let_idle_threads_sleep()
    try:
        app()
    except FedericoError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
