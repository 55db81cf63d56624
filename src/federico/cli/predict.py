"""`federico predict`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from federico.cli.console import PLAIN, err, out, print_json
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

if TYPE_CHECKING:
    from federico.runs.bundle import Bundle
    from federico.runs.predicting import Predictions

SHOWN_DISAGREEING = 3
"""How many collaborators are named that disagree most with the client's own model."""
FORMATS = (".csv", ".parquet")
STANDARD = Path("-")
"""Standard input as the file, standard output as the output."""


class UnknownPolicy(StrEnum):
    """What becomes of a category that was not in the training data."""

    ERROR = "error"
    MISSING = "missing"


class DecimalMark(StrEnum):
    """What stands before the decimals of a number."""

    POINT = "."
    COMMA = ","


def predict(
    run: RunOrFolder,
    file: Annotated[
        Path,
        typer.Argument(help="New data: CSV, Parquet or npz, or - for CSV from standard input."),
    ],
    client: Client = "",
    output: Annotated[
        Path | None,
        typer.Option(
            help="Output file, .csv or .parquet, or - for standard output "
            "(default: <file>-predictions.csv)."
        ),
    ] = None,
    overwrite: Overwrite = False,
    id: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column to copy to the predictions; may be repeated "
            "(default: those that were named id for training).",
        ),
    ] = None,
    unknown: Annotated[
        UnknownPolicy,
        typer.Option(
            help="What becomes of a category that was not in the training data: an error that "
            "names its row, or a missing value."
        ),
    ] = UnknownPolicy.ERROR,
    collaborators: Annotated[
        bool,
        typer.Option(
            "--collaborators",
            help="Add a column by(<owner>) for each model: its share in the probability of the "
            "predicted class; for regression, the value that it alone predicts.",
        ),
    ] = False,
    separator: Annotated[
        str | None,
        typer.Option(help="What is between the fields of a CSV file (default: as in training)."),
    ] = None,
    decimal: Annotated[
        DecimalMark | None,
        typer.Option(help="The decimal mark of a CSV file (default: as in training)."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="What a CSV file was saved in (default: as in training)."),
    ] = None,
    method: MethodName = "federico",
    seed: Seed = None,
    row: Row = "",
    column: Column = "",
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict with one client's personal model, and write labels and probabilities.

    Where the file has the column to predict as well, a score is printed.
    """
    from federico.data.inputs import new_rows
    from federico.data.tabular import TO_PREDICT, encoding_hint
    from federico.runs.atomic import refuse_existing
    from federico.runs.predicting import ROWS_AT_ONCE, Predictions, write_tables

    target = _target(file, output)
    if target == STANDARD and json:
        raise ConfigError("--json: predictions go to standard output already; name an --output")
    bundle = open_personal_model(run, client, method, seed, row, column, trust=trust)
    if target != STANDARD:
        refuse_existing(target, overwrite)

    origin = bundle.table_origin(
        separator=_separator(separator),
        decimal=None if decimal is None else decimal.value,
        encoding=encoding,
    )
    hint = "" if origin is None else encoding_hint(file, origin.format, TO_PREDICT)
    if hint:
        err.print(f"warning: {hint}", style="yellow", **PLAIN)
    rows = new_rows(
        file,
        bundle.header.schema,
        origin,
        ids=id or None,
        unknown=unknown.value,
        at_once=ROWS_AT_ONCE,
    )
    predictions = Predictions(bundle, rows, collaborators=collaborators)
    write_tables(predictions.tables(), target)

    if json:
        print_json(_summary(predictions, bundle, target))
    elif not quiet:
        # Predictions on standard output stay alone there.
        console = err if target == STANDARD else out
        for line in _lines(predictions, bundle, target):
            console.print(line, **PLAIN)


def _target(file: Path, output: Path | None) -> Path:
    """Where to write; what cannot be read or written is refused."""
    if file != STANDARD and not file.exists():
        raise DataError(f"{file.absolute()}: there is no such file")
    if output is None and file == STANDARD:
        return STANDARD
    target = output or file.with_name(f"{file.stem}-predictions.csv")
    if target == STANDARD:
        return target
    if target.suffix not in FORMATS:
        raise ConfigError(f"--output {target}: must end in {' or '.join(FORMATS)}")
    if target.resolve() == file.resolve():
        raise ConfigError(f"--output {target}: is the input itself; name another file")
    return target


def _separator(given: str | None) -> str | None:
    """The character between fields; a tab may be written as a backslash and a t."""
    if given == "\\t":
        return "\t"
    if given is not None and len(given) != 1:
        raise ConfigError(f"--separator {given}: give one character, such as ';', or \\t for a tab")
    return given


def _summary(predictions: "Predictions", bundle: "Bundle", target: Path) -> dict[str, object]:
    """What was written, for scripts."""
    summary: dict[str, object] = {
        "file": str(target),
        "rows": predictions.rows,
        "rows_without_prediction": predictions.unanswered,
        "posterior": bundle.posterior,
    }
    if bundle.header.schema.task == "classification":
        summary["calibrated"] = bundle.header.calibration is not None
    if predictions.disagreement.by_owner:
        summary["disagreement"] = predictions.disagreement.by_owner
    if predictions.of_others:
        summary["rows_of_others"] = predictions.of_others
    if predictions.score.rows:
        figures = predictions.score.figures()
        summary["score"] = {"rows": predictions.score.rows, **figures}
    return summary


def _lines(predictions: "Predictions", bundle: "Bundle", target: Path) -> list[str]:
    """What was written, for people."""
    from federico.methods import METHODS
    from federico.runs.score import describe_figures

    where = "" if target == STANDARD else f" in {target}"
    names = ", ".join(f"{name} {weight:.0%}" for name, weight in bundle.posterior.items())
    lines = [f"{predictions.rows} predictions{where}, by the models of {names}"]
    if bundle.header.schema.task == "classification" and bundle.header.calibration is None:
        title = METHODS[bundle.header.method].title if bundle.header.method in METHODS else "It"
        lines.append(
            f"the probabilities are as the models give them: {title} does not calibrate, and "
            "models of few samples are too sure of themselves"
        )
    if predictions.of_others:
        lines.append(
            f"{predictions.of_others} of these rows are not of {bundle.header.client}: they were "
            "predicted, and judged, with its model all the same"
        )
    score = predictions.score
    if score.rows:
        lines.append(f"{describe_figures(score.figures())}, on {score.rows} rows with a label")
    lines += _disagreement(predictions, bundle)
    if predictions.unanswered:
        scored = ""
        if score.rows and bundle.header.schema.task == "classification":
            scored = ", and they count as wrong"
        lines.append(
            f"{predictions.unanswered} rows have no prediction, because none of the models has a "
            f"finite answer for them: the column is empty there{scored}"
        )
    if predictions.unknown_labels:
        lines.append(
            f"{predictions.unknown_labels} rows have a label that the model does not know: "
            "they are not in the score"
        )
    return lines


def _disagreement(predictions: "Predictions", bundle: "Bundle") -> list[str]:
    """How far the collaborators that disagree most are from the client's own model."""
    seen = predictions.disagreement.by_owner
    collaborators = bundle.collaborators()
    most = [name for name in seen if name in collaborators][:SHOWN_DISAGREEING]
    if not most:
        return []
    own = predictions.disagreement.compared_with
    if bundle.header.schema.task == "classification":
        shares = [f"{name} in {seen[name]:.0%}" for name in most]
        return [f"another label than the model of {own} has: {', '.join(shares)} of the rows"]
    distances = [f"{name} by {seen[name]:.3g}" for name in most]
    return [f"away from what the model of {own} predicts, on average: {', '.join(distances)}"]
