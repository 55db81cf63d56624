"""Values as JSON knows them."""

import math
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from federico.report.text_table import TextTable
from federico.runs.metric import Metric

Plain: TypeAlias = dict[str, Any]
R2 = re.compile(r"\bR2\b")


def number(value: float | None) -> float | None:
    """The value; None where it is undefined or not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def numbers(values: Iterable[float | None]) -> list[float | None]:
    """The same of many values."""
    return [number(value) for value in values]


def typeset(text: str) -> str:
    """A sentence as the page shows it: R², which tables for terminals write R2."""
    return R2.sub("R\N{SUPERSCRIPT TWO}", text)


def table(shown: TextTable) -> Plain:
    """A table of texts."""
    lines = []
    for line in shown.lines:
        lines.append([{"text": cell.text, "bold": cell.bold} for cell in line])
    headings = [typeset(heading) for heading in shown.headings]
    return {"title": typeset(shown.title), "headings": headings, "lines": lines}


def metric(shown: Metric) -> Plain:
    """How a figure is written: its name, unit, and which way is better."""
    return {
        "name": typeset(shown.name),
        "key": shown.recorded_as,
        "percent": shown.in_percent,
        "higher": shown.higher_is_better,
    }
