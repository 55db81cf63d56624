"""CSV and Parquet files as numbers, read the same way for training and for prediction."""

from __future__ import annotations

import codecs
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from federico.data.dataset import TableColumn
from federico.data.files import existing, first_line
from federico.errors import ConfigError, DataError
from federico.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("?", "NA", "NaN")
"""Texts that stand for a missing value unless the options name others."""
STANDARD_INPUT = Path("-")
"""The name under which a CSV file is read from standard input."""
SEPARATORS = (";", "\t", "|", ",")
"""What a file is likely to have between its fields, if it is not what the options say."""
ENOUGH_TO_GUESS = 1 << 22
"""Bytes of a file by which its encoding is guessed."""
MOST_LISTED = 20
"""Known categories that an error message lists."""
MOST_SHOWN = 100
"""Letters of a value that an error message shows."""

Decimal: TypeAlias = Literal[".", ","]
Unknown: TypeAlias = Literal["error", "missing"]
"""What becomes of a category that training data did not have."""

UNREADABLE_TABLE = (
    ValueError,
    OSError,
    EOFError,
    ImportError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What pandas raises for a file that is no table, is damaged, or cannot be unpacked."""


DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b")
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
POINTS_AMONG_DIGITS = re.compile(r"[+-]?\d*(\.\d+)+(,\d+)?")


@dataclass(frozen=True)
class TableFormat:
    """How the text of a CSV file is read; of Parquet only `missing` matters."""

    names: tuple[str, ...] = ()
    """The columns of a file without a header line."""
    missing: tuple[str, ...] = MISSING
    """Texts that stand for a missing value, besides the empty field."""
    separator: str = ","
    decimal: Decimal = "."
    encoding: str = "utf-8"


@dataclass(frozen=True)
class TableOrigin:
    """What must be known of a training table to read new rows of the same kind."""

    format: TableFormat
    target: str
    """The column that is predicted."""
    above: float | None = None
    """The target is whether its column is above this number, where that was asked for."""
    ids: tuple[str, ...] = ()
    """Columns that name a row."""
    owner: str | None = None
    """The column that says whose row it is, where one does."""


PLAIN = TableFormat()


@dataclass(frozen=True)
class Advice:
    """How errors say what to do about a table."""

    other_text: str
    """What to do about a text among numbers."""
    option: str
    """How to give an option, with {name} and {value} in the place of its own."""

    def give(self, name: str, value: str) -> str:
        """How to give this option."""
        return self.option.format(name=name, value=repr(value))


TO_TRAIN = Advice(
    other_text="name the column in 'id', 'categorical' or 'ignore', or the text in 'missing'",
    option="set {name} to {value}",
)
"""For a training table: an experiment file names its options."""
TO_PREDICT = Advice(
    other_text="correct it, or leave the field empty if the value is not known",
    option="say --{name} {value} (in Python {name}={value})",
)
"""For new rows, where the model has settled which columns hold numbers."""


def read_table(path: Path, form: TableFormat = PLAIN) -> pd.DataFrame:
    """All rows of a file, with a missing value for each field that is empty or marked so.

    Rows are numbered from 1.
    """
    return with_gaps(read_untouched(path, form), form)


def read_untouched(path: Path, form: TableFormat = PLAIN) -> pd.DataFrame:
    """All rows of a file with their fields as they are, numbered from 1."""
    (frame,) = table_chunks(path, form)
    return frame


def table_chunks(
    path: Path, form: TableFormat = PLAIN, rows: int | None = None, advice: Advice = TO_TRAIN
) -> Iterator[pd.DataFrame]:
    """Its rows as they are, in pieces of this many rows: only one of them has to be in memory."""
    if path != STANDARD_INPUT:
        existing(path)
    is_parquet = path.suffix.lower() == ".parquet"
    pieces = _read_parquet(path, rows) if is_parquet else _read_csv(path, form, rows)

    first_row = 1
    header: list[str] = []
    for piece in _readable(pieces, path, form, advice):
        frame = piece
        if not is_parquet:
            if not header:
                header = _header(frame, form, path, advice)
                frame = frame if form.names else frame.iloc[1:]
            frame = frame.set_axis(header, axis=1)
        duplicated = frame.columns[frame.columns.duplicated()]
        if len(duplicated):
            raise DataError(f"{path}: two columns are named '{duplicated[0]}': rename one")

        row_numbers = range(first_row, first_row + len(frame))
        first_row += len(frame)
        yield frame.set_axis(row_numbers, axis=0)


def with_gaps(frame: pd.DataFrame, form: TableFormat) -> pd.DataFrame:
    """The rows of a file with a missing value for each field that is empty or marked so."""
    trimmed = without_trailing_spaces(frame)
    return trimmed.mask(trimmed.isin(_missing_values(form.missing)))


def encoding_hint(path: Path, form: TableFormat, advice: Advice = TO_TRAIN) -> str:
    """What to look at where a file is read in another encoding than the one it probably has.

    Letters beyond ASCII that are in another encoding are hardly ever valid UTF-8 by chance. Empty
    where nothing is remarkable, and for Parquet, which knows its encoding.
    """
    if path.suffix.lower() == ".parquet" or _is_utf_8(form.encoding):
        return ""
    try:
        start = _first_bytes(path)
        # The last letter may be cut: it is waited for, and is no error.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except (OSError, UnicodeDecodeError):
        return ""
    if start.isascii():
        return ""
    return (
        f"{path} is read as {form.encoding}, but looks like UTF-8: if letters are wrong, "
        f"{advice.give('encoding', 'utf-8')}"
    )


def stripped_texts(frame: pd.DataFrame) -> list[str]:
    """What `without_trailing_spaces` changes in this frame, a line for each column."""
    changes = []
    for name in frame.columns:
        if frame[name].dtype.kind != "O":
            continue
        trimmed = frame[name].map(_trimmed, na_action="ignore")
        changed = frame[name][frame[name].notna() & (trimmed != frame[name])]
        if len(changed):
            text = str(changed.iloc[0])
            rows = "1 row" if len(changed) == 1 else f"{len(changed)} rows"
            changes.append(
                f"column {str(name)!r}: spaces at the end were removed in {rows}, "
                f"such as {text!r} -> {text.rstrip()!r}"
            )
    return changes


def without_trailing_spaces(frame: pd.DataFrame) -> pd.DataFrame:
    """The same texts without spaces at their ends: `home ` and `home` are one category."""
    trimmed = frame.copy(deep=False)
    for name in frame.columns:
        if frame[name].dtype.kind == "O":
            trimmed[name] = frame[name].map(_trimmed, na_action="ignore")
    return trimmed


def require_columns(frame: pd.DataFrame, names: Sequence[str], path: object) -> None:
    """Refuse a file that lacks one of these columns."""
    for name in names:
        if name not in frame.columns:
            found = ", ".join(map(str, frame.columns))
            problem = f"{path}: no column named '{name}': it holds {found}"
            if not found.isascii():
                problem += " (if letters are wrong, it has another encoding)"
            raise DataError(problem)


def category_texts(values: pd.Series) -> pd.Series:
    """Each value as the text that names its category; missing values stay missing.

    The whole number 1 may be written `1` in one file and `1.0` in another, or be a floating-point
    number because other rows of its column are missing. All of these become `1`. Other texts stay
    as they are: `v1.0` and `v1` are two categories.
    """
    texts = values.astype(str)
    whole_numbers = texts.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)
    return whole_numbers.where(values.notna())


def find_categories(values: pd.Series) -> tuple[str, ...]:
    """The different categories of a column: first numbers in order of size, then words."""
    import pandas as pd

    found = pd.Series(category_texts(values).dropna().unique()).sort_values()
    # A word is no number and becomes NaN, which sorts last.
    sizes = pd.to_numeric(found, errors="coerce").to_numpy()
    order = np.argsort(sizes, kind="stable")
    return tuple(str(category) for category in found.iloc[order])


def label_values(values: pd.Series, decimal: Decimal = ".") -> Array:
    """A column as numbers if all of it can be read as numbers, else as the texts it holds."""
    if values.dtype.kind in "mMb":
        return category_texts(values).to_numpy(dtype=str)
    numbers = numbers_or_nan(values, decimal)
    if np.isnan(numbers).any():
        return category_texts(values).to_numpy(dtype=str)
    return numbers


def category_numbers(
    values: pd.Series, categories: Sequence[str], origin: object, unknown: Unknown = "error"
) -> IntArray:
    """The position of each value among the categories, -1 where the value is missing.

    `unknown` says what becomes of a value that is none of the categories.
    """
    import pandas as pd

    found = category_texts(values)
    others = found[found.notna() & ~found.isin(categories)]
    if len(others) and unknown == "error":
        known = ", ".join(categories[:MOST_LISTED])
        if len(categories) > MOST_LISTED:
            known += f" and {len(categories) - MOST_LISTED} more"
        raise DataError(
            f"{origin}: row {others.index[0]}: column '{values.name}' holds "
            f"'{_shown(str(others.iloc[0]))}', "
            f"known are {known}: correct it, or treat unknown categories as missing "
            "(--unknown missing, in Python unknown='missing')"
        )
    known_or_missing = found.where(found.isin(categories))
    return pd.Categorical(known_or_missing, categories=list(categories)).codes.astype(np.int64)


def column_numbers(
    values: pd.Series, origin: object, decimal: Decimal = ".", advice: Advice = TO_TRAIN
) -> FloatArray:
    """A column as numbers, NaN where a value is missing; errors name the `origin`."""
    if values.dtype.kind in "mM":
        # pandas would count nanoseconds, and take a missing date for a very early one.
        raise DataError(
            f"{origin}: column '{values.name}' holds dates or times, which are not numbers: "
            "write them as numbers, or name the column in 'ignore'"
        )

    numbers = numbers_or_nan(values, decimal)
    not_a_number = np.isnan(numbers) & values.notna().to_numpy()
    wrong = values[not_a_number | np.isinf(numbers)]
    if len(wrong):
        text = str(wrong.iloc[0])
        raise DataError(
            f"{origin}: row {wrong.index[0]}: column '{values.name}' holds '{_shown(text)}', "
            f"which is not a number: {_remedy(text, decimal, advice)}"
        )
    return numbers


def refuse_texts(
    frame: pd.DataFrame, names: Sequence[str], origin: object, decimal: Decimal = "."
) -> None:
    """Name all columns that should be numbers and are not, so that nobody meets them one by one.

    A single one is left to `column_numbers`, whose error says the same of it.
    """
    examples: list[str] = []
    remedies: list[str] = []
    for name in names:
        values = frame[name]
        if values.dtype.kind in "mM":
            continue
        wrong = values[np.isnan(numbers_or_nan(values, decimal)) & values.notna().to_numpy()]
        if len(wrong):
            text = str(wrong.iloc[0])
            examples.append(f"'{name}' ('{_shown(text)}' in row {wrong.index[0]})")
            if DATE.match(text):
                remedies += [TO_TRAIN.other_text, "write dates as numbers, such as days or years"]
            else:
                remedies.append(_remedy(text, decimal, TO_TRAIN))
    if len(examples) < 2:
        return

    listed = ", ".join(examples[:MOST_LISTED])
    if len(examples) > MOST_LISTED:
        listed += f" and {len(examples) - MOST_LISTED} more"
    raise DataError(
        f"{origin}: {len(examples)} columns hold texts that are not numbers: {listed}: "
        f"{'; '.join(dict.fromkeys(remedies))}"
    )


def column_values(
    frame: pd.DataFrame,
    columns: Sequence[TableColumn],
    origin: object,
    decimal: Decimal = ".",
    unknown: Unknown = "error",
    advice: Advice = TO_TRAIN,
) -> FloatArray:
    """One number for each column [rows, columns]: its number, or the position of its category.

    NaN where a value is missing.
    """
    parts: list[FloatArray] = []
    for column in columns:
        values = frame[column.name]
        if column.categories is None:
            parts.append(column_numbers(values, origin, decimal, advice))
        else:
            positions = category_numbers(values, column.categories, origin, unknown)
            parts.append(np.where(positions < 0, np.nan, positions))
    return np.column_stack(parts)


def encode_columns(
    frame: pd.DataFrame,
    columns: Sequence[TableColumn],
    origin: object,
    decimal: Decimal = ".",
) -> FloatArray:
    """The inputs of a model [rows, inputs]: one for a number, one for each category.

    Where a category is missing, all inputs of its column are NaN.
    """
    values = column_values(frame, columns, origin, decimal)
    parts: list[Array] = []
    for place, column in enumerate(columns):
        if column.categories is None:
            parts.append(values[:, [place]])
        else:
            parts.append(_one_hot(values[:, place], column.width))
    return np.hstack(parts)


def _shown(text: str) -> str:
    """As much of a value as an error needs to be found in a table."""
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}..."


def _one_hot(values: FloatArray, width: int) -> FloatArray:
    # The row of NaN stands last, where the position -1 finds it.
    rows = np.vstack([np.eye(width), np.full((1, width), np.nan)])
    positions = np.nan_to_num(values, nan=-1).astype(np.int64)
    return rows[positions]


def numbers_or_nan(values: pd.Series, decimal: Decimal) -> FloatArray:
    """Each value as a number, NaN where it is missing or none."""
    import pandas as pd

    if decimal == "," and values.dtype.kind not in "biuf":
        texts = values.astype("str")
        # `1.234` may be 1234 or 1.234: where the comma is the decimal mark, it is no number.
        unambiguous = texts.where(~texts.str.contains(".", regex=False, na=False))
        values = unambiguous.str.replace(",", ".", regex=False)
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _remedy(text: str, decimal: Decimal, advice: Advice) -> str:
    """What to do about a text that should be a number."""
    if decimal == "." and DECIMAL_COMMA.fullmatch(text):
        return f"if the comma is the decimal mark, {advice.give('decimal', ',')}"
    if DATE.match(text):
        return (
            "it looks like a date; write it as a number, such as days or years, or "
            f"{advice.other_text}"
        )
    if decimal == "," and POINTS_AMONG_DIGITS.fullmatch(text):
        return f"remove the points between thousands, or {advice.give('decimal', '.')}"
    return advice.other_text


def _readable(
    pieces: Iterator[pd.DataFrame], path: Path, form: TableFormat, advice: Advice
) -> Iterator[pd.DataFrame]:
    """The same pieces, with errors that name the file and say what to do."""
    try:
        yield from pieces
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: is not {form.encoding} text ({error.reason} at byte {error.start}): "
            f"{advice.give('encoding', 'latin-1')}, or what else it was saved in, such as "
            "'cp1252', or save it as UTF-8"
        ) from error
    except LookupError as error:
        raise ConfigError(
            f"encoding: {form.encoding!r} is none that Python knows: try 'utf-8' or 'latin-1'"
        ) from error
    except UNREADABLE_TABLE as error:
        problem = f"{path}: not a readable CSV or Parquet file: {first_line(error)}"
        if "Expected" in problem:
            other = next(each for each in SEPARATORS if each != form.separator)
            problem += (
                f"; if fields are not separated by {form.separator!r}, "
                f"{advice.give('separator', other)}, or what else is between them"
            )
        raise DataError(problem) from error


def _read_parquet(path: Path, rows: int | None) -> Iterator[pd.DataFrame]:
    import pandas as pd

    pieces: Iterator[pd.DataFrame]
    if rows is None:
        pieces = iter([pd.read_parquet(path)])
    else:
        from pyarrow.parquet import ParquetFile

        pieces = (batch.to_pandas() for batch in ParquetFile(path).iter_batches(rows))
    for frame in pieces:
        # Options name columns by text, and a frame may have been written with numbers as names.
        yield frame.set_axis([str(name) for name in frame.columns], axis=1)


def _read_csv(path: Path, form: TableFormat, rows: int | None) -> Iterator[pd.DataFrame]:
    """All lines as texts, the header too.

    If pandas took the first line for a header, it would hide that later lines are longer.
    """
    import sys

    import pandas as pd

    source: Path | IO[bytes] = path
    if path == STANDARD_INPUT:
        source = sys.stdin.buffer
    encoding = form.encoding
    if _is_utf_8(encoding):
        encoding = "utf-8-sig"  # the same, without the mark that some programs put first
    read = pd.read_csv(
        source,
        sep=form.separator,
        header=None,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        encoding=encoding,
        chunksize=rows,
    )
    if isinstance(read, pd.DataFrame):
        yield read
    else:
        yield from read


def _header(frame: pd.DataFrame, form: TableFormat, path: Path, advice: Advice) -> list[str]:
    """The names of the columns: those given, or those of the first line."""
    found = [str(name).rstrip() for name in frame.iloc[0]]
    if len(found) == 1:
        for separator in SEPARATORS:
            if separator in found[0]:
                raise DataError(
                    f"{path}: only one column was found, '{found[0]}': "
                    f"{advice.give('separator', separator)}"
                )
    if not form.names:
        return found
    if len(form.names) != len(found):
        raise DataError(
            f"{path}: holds {len(found)} columns but 'names' lists {len(form.names)}: "
            "name each column"
        )
    return list(form.names)


def _is_utf_8(encoding: str) -> bool:
    return encoding.lower() in {"utf-8", "utf8"}


def _first_bytes(path: Path) -> bytes:
    """What a file begins with; of standard input only what is there, and it stays there."""
    import sys

    if path == STANDARD_INPUT:
        buffer = sys.stdin.buffer
        return buffer.peek() if isinstance(buffer, io.BufferedReader) else b""
    with path.open("rb") as file:
        return file.read(ENOUGH_TO_GUESS)


def _trimmed(value: object) -> object:
    return value.rstrip() if isinstance(value, str) else value


def _missing_values(texts: Sequence[str]) -> list[str | float]:
    """The empty field, these texts, and the numbers they stand for.

    A Parquet file holds the marker `-9` as a number.
    """
    values: list[str | float] = ["", *texts]
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            continue
        if np.isfinite(number):
            values.append(number)
    return values
