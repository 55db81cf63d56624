"""`federico predict`."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from federico.api import load
from federico.cli.console import PLAIN, out, print_json
from federico.errors import ConfigError, DataError
from federico.runs.atomic import publish
from federico.runs.bundle import Bundle
from federico.types import FloatArray

FORMATS = (".csv", ".parquet")


@dataclass(frozen=True)
class Predictions:
    """What was written, and by whose model."""

    bundle: Bundle
    rows: int
    file: Path

    def show(self, *, quiet: bool, as_json: bool) -> None:
        """Say it to a person or to a script."""
        if as_json:
            print_json(
                {"file": str(self.file), "rows": self.rows, "posterior": self.bundle.posterior}
            )
        elif not quiet:
            names = ", ".join(
                f"{name} {weight:.0%}" for name, weight in self.bundle.posterior.items()
            )
            out.print(f"{self.rows} predictions in {self.file}, by the models of {names}", **PLAIN)


def predict_file(
    run: Path, file: Path, *, client: str, output: Path | None, method: str, seed: int | None
) -> Predictions:
    """Write a row per sample: the prediction, and for classes the probability of each."""
    target = output or file.with_name(f"{file.stem}-predictions.csv")
    if target.suffix not in FORMATS:
        raise ConfigError(f"--output {target}: must end in {' or '.join(FORMATS)}")
    if target.resolve() == file.resolve():
        raise ConfigError(f"--output {target}: is the input itself; name another file")
    if not file.exists():
        raise DataError(f"{file}: there is no such file")
    bundle = _bundle(run, client, method, seed)
    frame = _frame(bundle, bundle.probabilities(bundle.read(file)))
    write = frame.to_parquet if target.suffix == ".parquet" else frame.to_csv
    publish(target, lambda partial: write(partial, index=False))
    return Predictions(bundle, len(frame), target)


def _bundle(run: Path, client: str, method: str, seed: int | None) -> Bundle:
    if (run / "bundle.json").exists():
        return Bundle(run)
    if (own := [*run.glob("clients/*/bundle.json")]) and len(
        own
    ) == 1:  # the state folder of a site
        return Bundle(own[0].parent)
    opened = load(run)
    if not client:
        raise ConfigError(f"--client: say whose model; {run} has {', '.join(opened.clients)}")
    return opened.client(client, method=method, seed=seed)


def _frame(bundle: Bundle, outputs: FloatArray) -> pd.DataFrame:
    schema = bundle.header.schema
    if schema.task == "regression":
        return pd.DataFrame(outputs, columns=[f"prediction_{k}" for k in range(schema.outputs)])
    frame = pd.DataFrame(outputs, columns=[f"p({name})" for name in schema.label_names])
    frame.insert(0, "prediction", [schema.label_names[best] for best in outputs.argmax(1)])
    return frame
