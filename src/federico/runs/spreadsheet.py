"""Text that is safe in a CSV file: a spreadsheet must not take somebody's name for a formula."""

import csv
import io
from collections.abc import Iterable

from federico.printable import printable

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet may take for the beginning of a formula."""


def inert(value: object) -> object:
    """The value as it may stand in a CSV file: text that looks like a formula gets a quote.

    Numbers stay as they are, and so does text that is one, such as the label "-1". Characters that
    a terminal would obey are replaced, as the file may be printed to one.
    """
    if not isinstance(value, str):
        return value
    shown = printable(value)
    if value.startswith(FORMULA_STARTS) and not _is_number(value):
        return f"'{shown}"
    return shown


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """The text of a CSV file with these rows, of which the first holds the headings."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in rows:
        writer.writerow([inert(value) for value in row])
    return buffer.getvalue()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
