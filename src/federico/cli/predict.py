"""`federico predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from federico.cli.console import PLAIN, out, print_json
from federico.cli.options import Json, Quiet
from federico.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pandas as pd

    from federico.runs.bundle import Bundle
    from federico.types import FloatArray

FORMATS = (".csv", ".parquet")


def predict(
    run: Annotated[
        Path, typer.Argument(help="Run directory, or the folder of one personal model.")
    ],
    file: Annotated[Path, typer.Argument(help="New data: CSV, Parquet or npz.")],
    client: Annotated[
        str, typer.Option(help="Whose personal model; not needed with its own folder.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(help="Output file, .csv or .parquet (default: <file>-predictions.csv)."),
    ] = None,
    method: Annotated[str, typer.Option(help="The method that trained the model.")] = "federico",
    seed: Annotated[
        int | None, typer.Option(help="The seed of the run (default: the first).")
    ] = None,
    row: Annotated[
        str, typer.Option(help="The row, if the run has a grid (default: the first).")
    ] = "",
    column: Annotated[
        str, typer.Option(help="The column, if the run has a grid (default: the first).")
    ] = "",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict with one client's personal model, and write labels and probabilities."""
    from federico.runs.atomic import publish

    target = _target(file, output)
    bundle = _bundle(run, client, method, seed, row, column)
    frame = _frame(bundle, bundle.probabilities(bundle.read(file)))
    write = frame.to_parquet if target.suffix == ".parquet" else frame.to_csv
    publish(target, lambda partial: write(partial, index=False))

    if json:
        print_json({"file": str(target), "rows": len(frame), "posterior": bundle.posterior})
    elif not quiet:
        names = ", ".join(f"{name} {weight:.0%}" for name, weight in bundle.posterior.items())
        out.print(f"{len(frame)} predictions in {target}, by the models of {names}", **PLAIN)


def _target(file: Path, output: Path | None) -> Path:
    """Where to write; what cannot be read or written is refused."""
    target = output or file.with_name(f"{file.stem}-predictions.csv")
    if target.suffix not in FORMATS:
        raise ConfigError(f"--output {target}: must end in {' or '.join(FORMATS)}")
    if target.resolve() == file.resolve():
        raise ConfigError(f"--output {target}: is the input itself; name another file")
    if not file.exists():
        raise DataError(f"{file}: there is no such file")
    return target


def _bundle(
    run: Path, client: str, method: str, seed: int | None, row: str, column: str
) -> "Bundle":
    """The client's personal model, from its own folder, a site's state folder or a run."""
    from federico.api import load
    from federico.runs.bundle import HEADER_FILE, open_folder

    if (run / HEADER_FILE).exists():
        return open_folder(run)
    own = list(run.glob(f"clients/*/{HEADER_FILE}"))
    if len(own) == 1:  # the state folder of a site
        return open_folder(own[0].parent)

    opened = load(run)
    if not client:
        raise ConfigError(f"--client: say whose model; {run} has {_listed(opened.clients)}")
    return opened.client(client, method=method, seed=seed, row=row, column=column)


def _listed(clients: list[str], most: int = 20) -> str:
    shown = ", ".join(clients[:most])
    if len(clients) > most:
        shown += f" and {len(clients) - most} more"
    return shown


def _frame(bundle: "Bundle", outputs: "FloatArray") -> "pd.DataFrame":
    """One row per sample: the prediction, and for classes the probability of each."""
    import pandas as pd

    schema = bundle.header.schema
    if schema.task == "regression":
        names = [f"prediction_{k}" for k in range(schema.outputs)]
        return pd.DataFrame(outputs, columns=names)
    frame = pd.DataFrame(outputs, columns=[f"p({name})" for name in schema.label_names])
    labels = [schema.label_names[best] for best in outputs.argmax(1)]
    frame.insert(0, "prediction", labels)
    return frame
