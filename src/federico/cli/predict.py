"""`federico predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from federico.cli.console import PLAIN, out, print_json
from federico.cli.options import Json, Quiet, Trust
from federico.cli.personal_model import (
    Client,
    Column,
    MethodName,
    Overwrite,
    Row,
    RunOrFolder,
    Seed,
    open_personal_model,
)
from federico.errors import ConfigError, DataError
from federico.runs.spreadsheet import inert

if TYPE_CHECKING:
    import pandas as pd

    from federico.runs.bundle import Bundle
    from federico.types import FloatArray

FORMATS = (".csv", ".parquet")


def predict(
    run: RunOrFolder,
    file: Annotated[Path, typer.Argument(help="New data: CSV, Parquet or npz.")],
    client: Client = "",
    output: Annotated[
        Path | None,
        typer.Option(help="Output file, .csv or .parquet (default: <file>-predictions.csv)."),
    ] = None,
    overwrite: Overwrite = False,
    method: MethodName = "federico",
    seed: Seed = None,
    row: Row = "",
    column: Column = "",
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict with one client's personal model, and write labels and probabilities."""
    from federico.runs.atomic import publish, refuse_existing

    target = _target(file, output)
    bundle = open_personal_model(run, client, method, seed, row, column, trust=trust)
    refuse_existing(target, overwrite)
    frame = _frame(bundle, bundle.probabilities(bundle.read(file)))
    if target.suffix == ".parquet":
        publish(target, lambda partial: frame.to_parquet(partial, index=False))
    else:
        publish(target, lambda partial: _inert(frame).to_csv(partial, index=False))

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


def _inert(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The same table without text that a spreadsheet would take for a formula."""
    safe = frame.rename(columns=inert)
    if "prediction" in safe:
        safe["prediction"] = safe["prediction"].map(inert)
    return safe


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
