from dataclasses import replace
from typing import Any

from federico.report.old.posteriors import panels
from federico.report.old.summary import Collaboration
from federico.runs.layout import Description
from federico.runs.records import Record


def record(index: int, posterior: list[dict[str, float]]) -> Record:
    return Record(index, None, None, [], posterior, [0] * 3, [0] * 3, 0, [0] * 3, [0] * 3, 0)


def legend(shown: Collaboration) -> list[str]:
    return [text.get_text() for text in panels(shown, "Weights").legends[0].get_texts()]


def test_peers_are_coloured_by_distribution(description: Description) -> None:
    rows: list[dict[str, Any]] = [{"a": 0.5, "b": 0.5}, {"a": 0.995, "c": 0.005}, {"c": 1.0}]
    shown = Collaboration(description, [record(1, rows)])
    assert legend(shown) == ["own model", "distribution 0", "distribution 1"]
    first, second, third = panels(shown, "Weights").axes
    assert [axes.get_title(loc="left") for axes in (first, second, third)] == ["a", "b", "c"]
    assert len(first.lines) == 2
    assert len(second.lines) == 1, "a weight that stays below one percent is not drawn"


def test_components_belong_to_nobody(description: Description) -> None:
    rows = [{"component 1": 0.25, "component 2": 0.75}] * 3
    shown = Collaboration(description, [record(1, rows)])
    assert legend(shown) == ["component 1", "component 2"]
    assert panels(shown, "Weights").axes[2].get_title(loc="left") == "c, distribution 1"
    alone = Collaboration(replace(description, distribution=None), [record(1, rows)])
    assert panels(alone, "Weights").axes[2].get_title(loc="left") == "c"
