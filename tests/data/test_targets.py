from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federico.data.dataset import Schema
from federico.data.from_python import dataset_from_clients
from federico.data.sources.npz import Npz
from federico.data.sources.table import Table
from federico.data.targets import MANY_CLASSES, many_classes_hint, task_of
from federico.types import Task

WHOLE = [3, 7, 7, 1]
FRACTIONS = [3.0, 7.5, 7.0, 1.0]


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (np.array(WHOLE), "classification"),
        (np.array(WHOLE, dtype=np.uint8), "classification"),
        (np.array(WHOLE, dtype=np.float32), "classification"),
        (np.array([True, False]), "classification"),
        (np.array(["ill", "well"]), "classification"),
        (np.array(FRACTIONS), "regression"),
        (np.array([1.0, np.nan]), "regression"),
        (np.array([WHOLE]), "regression"),
    ],
    ids=str,
)
def test_whole_numbers_are_classes_and_others_values(targets: Any, task: Task) -> None:
    assert task_of(targets) == task


@pytest.mark.parametrize(
    ("targets", "task"), [(WHOLE, "classification"), (FRACTIONS, "regression")]
)
def test_tables_files_of_arrays_and_python_agree(
    tmp_path: Path, targets: list[float], task: Task
) -> None:
    x = np.arange(8.0).reshape(4, 2)
    rows = [f"{a},{b},{y}" for (a, b), y in zip(x.tolist(), targets, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,y", *rows]), encoding="utf-8")
    np.savez(tmp_path / "a.npz", x=x, y=np.array(targets))

    table = Table(path=Path("a.csv"), label="y").load(tmp_path, 0)
    npz = Npz(path=Path("a.npz")).load(tmp_path, 0)
    python = dataset_from_clients({"one": (x, np.array(targets))})

    assert [found.schema.task for found in (table, npz, python)] == [task] * 3


def test_what_the_options_say_wins_over_the_rule_and_the_federation(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,3\n2,4\n", encoding="utf-8")
    unsaid = Table(path=Path("a.csv"), label="y")
    said = Table(path=Path("a.csv"), label="y", task="classification")
    threshold = Table(path=Path("a.csv"), label="y", label_above=3)

    assert unsaid.load(tmp_path, 0).schema.task == "classification"
    assert unsaid.for_task("regression").load(tmp_path, 0).schema.task == "regression"
    assert said.for_task("regression") == said
    assert threshold.for_task("regression").load(tmp_path, 0).schema.task == "classification"
    assert Npz(path=Path("a.npz")).for_task("regression").task == "regression"


def numbered(classes: int) -> Schema:
    return Schema("classification", (2,), classes, tuple(str(number) for number in range(classes)))


def test_many_whole_numbers_are_worth_a_hint_that_says_what_to_set() -> None:
    hint = many_classes_hint(numbered(MANY_CLASSES + 1))

    assert f"{MANY_CLASSES + 1} classes" in hint
    assert 'task = "regression"' in hint
    assert many_classes_hint(numbered(MANY_CLASSES)) == ""
    assert many_classes_hint(Schema("regression", (2,), 50)) == ""
    words = tuple(f"word {number}" for number in range(50))
    assert many_classes_hint(Schema("classification", (2,), 50, words)) == ""


def test_the_hint_is_gone_once_the_task_is_said() -> None:
    schema = numbered(50)
    for options in (
        Table(path=Path("a.csv"), label="y"),
        Npz(path=Path("a.npz")),
    ):
        assert len(options.hints(schema)) == 1
        assert options.for_task("classification").hints(schema) == []
