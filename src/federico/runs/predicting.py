"""Predictions for the rows of a file, made and written some rows at a time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from federico.data.inputs import UNKNOWN_LABEL, NewRows, has_target
from federico.errors import ConfigError, DataError
from federico.runs.answers import has_answer, refuse_no_answers
from federico.runs.atomic import publish
from federico.runs.bundle import Bundle
from federico.runs.score import score_for
from federico.runs.spreadsheet import inert
from federico.types import Array, FloatArray

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 10_000
"""Rows of a table that are in memory at a time."""
STANDARD_OUTPUT = Path("-")
"""The name under which predictions are written to standard output."""


class Predictions:
    """What a personal model predicts for new rows, and what that is worth where labels are there.

    Tables are made as they are asked for. The counts are those of the rows so far.
    """

    def __init__(
        self, bundle: Bundle, new: Iterable[NewRows], *, collaborators: bool = False
    ) -> None:
        """`collaborators` adds a column for each model of the mixture, see `Bundle.decided_by`."""
        schema = bundle.header.schema
        self.rows = 0
        self.unanswered = 0
        """Rows without a prediction, because no model has a finite answer for them."""
        self.unknown_labels = 0
        """Rows whose label is none of the model's classes, which cannot be judged."""
        self.by_owner: Counter[str] = Counter()
        """How many rows are whose, where the file says so as the training table did."""
        self.disagreement = bundle.watch()
        """How often the models of others see these rows otherwise than the client's own."""
        self.score = score_for(schema.task, schema.outputs)
        self._bundle = bundle
        self._new = new
        self._collaborators = collaborators

    def tables(self) -> Iterator[pd.DataFrame]:
        """One row for each new row, in their order: ids, the prediction, and probabilities.

        An error at the end if there was no prediction for any of them.
        """
        for rows in self._new:
            outputs, separate = self._bundle.mixed_and_separate(rows.x)
            self.disagreement.add(separate)
            self.rows += len(outputs)
            self.unanswered += int((~has_answer(outputs)).sum())
            if rows.owners is not None:
                self.by_owner.update(rows.owners.dropna())
            if rows.targets is not None:
                self._judge(outputs, rows.targets)
            yield self._table(rows, outputs)
        refuse_no_answers(self.unanswered, self.rows, self._bundle.header.client)

    @property
    def of_others(self) -> int:
        """Rows that the file says are another client's than the one whose model predicts.

        0 where clients were not made by that column: then it names none whom the model knows.
        """
        client = self._bundle.header.client
        known = {client, *self._bundle.posterior}
        if known.isdisjoint(self.by_owner):
            return 0
        return self.by_owner.total() - self.by_owner[client]

    def _judge(self, outputs: FloatArray, targets: Array) -> None:
        """Add the rows to the score whose truth is known."""
        known = has_target(targets)
        if self._bundle.header.schema.task == "regression":
            known &= has_answer(outputs)  # no answer is a wrong class, but no value
        self.score.add(outputs[known], targets[known])
        if self._bundle.header.schema.task == "classification":
            self.unknown_labels += int((targets == UNKNOWN_LABEL).sum())

    def _table(self, rows: NewRows, outputs: FloatArray) -> pd.DataFrame:
        import pandas as pd

        parts = [prediction_columns(self._bundle, outputs)]
        if rows.ids is not None:
            # Converted, so that whole numbers with gaps stay whole numbers.
            parts.insert(0, rows.ids.reset_index(drop=True).convert_dtypes())
        if self._collaborators:
            parts.append(self._bundle.decided_by(rows.x).rename(columns="by({})".format))
        table = pd.concat(parts, axis=1)
        twice = table.columns[table.columns.duplicated()]
        if len(twice):
            raise ConfigError(
                f"--id {twice[0]}: is the name of a column of the predictions: "
                "rename it in the file, or leave it out"
            )
        return table


def prediction_columns(bundle: Bundle, outputs: FloatArray) -> pd.DataFrame:
    """The prediction under the name of the target, and for classes the probability of each."""
    import pandas as pd

    schema = bundle.header.schema
    name = "prediction"
    if bundle.header.table is not None:
        name = bundle.header.table.target

    if schema.task == "regression":
        names = [name]
        if schema.outputs > 1:
            names = [f"{name}_{number}" for number in range(schema.outputs)]
        return pd.DataFrame(outputs, columns=names)

    # Without an answer there is no label: to write the first one would be to make it up.
    labels = pd.array(np.array(schema.label_names)[outputs.argmax(1)], dtype="string")
    labels[~has_answer(outputs)] = pd.NA
    frame = pd.DataFrame(outputs, columns=[f"p({label})" for label in schema.label_names])
    frame.insert(0, name, labels)
    return frame


def write_tables(tables: Iterable[pd.DataFrame], target: Path) -> None:
    """Write tables below each other to a CSV or Parquet file, or as CSV to standard output.

    A file appears once it is whole.
    """
    if target == STANDARD_OUTPUT:
        for text in _csv_texts(tables):
            sys.stdout.write(text)
        sys.stdout.flush()
    elif target.suffix == ".parquet":
        publish(target, lambda partial: _write_parquet(tables, partial))
    else:
        publish(target, lambda partial: _write_csv(tables, partial))


def _csv_texts(tables: Iterable[pd.DataFrame]) -> Iterator[str]:
    is_first = True
    for table in tables:
        yield _inert(table).to_csv(index=False, header=is_first, lineterminator="\n")
        is_first = False


def _inert(table: pd.DataFrame) -> pd.DataFrame:
    """The same table without text that a spreadsheet would take for a formula."""
    safe = table.rename(columns=inert)
    for name in safe.columns:
        if safe[name].dtype.kind not in "biuf":
            safe[name] = safe[name].map(inert, na_action="ignore")
    return safe


def _write_csv(tables: Iterable[pd.DataFrame], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for text in _csv_texts(tables):
            file.write(text)


def _write_parquet(tables: Iterable[pd.DataFrame], path: Path) -> None:
    """Write the tables one after the other into one file, so that not all are in memory at once."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    writer = None
    try:
        for table in tables:
            if writer is None:
                schema = pyarrow.Table.from_pandas(table, preserve_index=False).schema
                writer = ParquetWriter(path, schema)
            writer.write_table(pyarrow.Table.from_pandas(table, schema, preserve_index=False))
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{path.stem}: a column that names the rows changes its type from row to row "
            f"({error}): write the predictions to a .csv file"
        ) from error
    finally:
        if writer is not None:
            writer.close()
