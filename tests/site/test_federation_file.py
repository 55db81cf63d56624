from pathlib import Path
from typing import Any

import pytest

from federico.data.dataset import Schema, TableColumn
from federico.errors import ConfigError
from federico.site.federation_file import FederationOptions, SampleOptions, load_federation

TEXT = """
name = "hospitals"
members = ["south", "north"]

[sample]
input_shape = [64]
labels = ["ill", "well"]
"""


def federation(**changes: Any) -> FederationOptions:
    sample = {"input_shape": [64], "labels": ["ill", "well"]}
    return FederationOptions.model_validate(
        {"name": "hospitals", "members": ["south", "north"], "sample": sample, **changes}
    )


def write(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


def test_how_the_file_is_written_does_not_change_what_was_agreed(tmp_path: Path) -> None:
    plain = load_federation(write(tmp_path, TEXT))
    wordy = load_federation(
        write(
            tmp_path,
            "# a remark\nrounds = 30\n" + TEXT.replace('"south", "north"', '"north","south"'),
        )
    )
    assert plain.digest == wordy.digest == federation().digest
    assert len(plain.digest) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 31},
        {"seed": 1},
        {"members": ["north", "south", "west"]},
        {"mode": "lock-step"},
        {"model": {"kind": "linear"}},
        {"federico": {"epsilon": 0.2}},
        {"training": {"precision": "bfloat16"}},
        {"limits": {"deadline": 5.0}},
        {"sample": {"input_shape": [64], "labels": ["well", "ill"]}},
    ],
)
def test_whatever_matters_changes_the_digest(change: dict[str, Any]) -> None:
    assert federation(**change).digest != federation().digest


def test_members_stand_in_one_order_everywhere() -> None:
    assert federation().roster.members == ("north", "south")


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = (
        TEXT.replace('name = "hospitals"', 'name = "a/b"\nround = 3\nmode = "lockstep"')
        + "[limits]\ndeadlines = 3\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_federation(write(tmp_path, text))
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert all(line.startswith(str(tmp_path / "federation.toml")) for line in lines)
    assert any("did you mean 'rounds'?" in line for line in lines)
    assert any("limits.deadlines" in line and "did you mean 'deadline'?" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"members": ["north"]}, "at least 2"),
        ({"members": ["north", "north"]}, "each name only once"),
        ({"members": ["north", "sou th"]}, "match pattern"),
        ({"sample": {"labels": ["a", "b"]}}, "give input_shape, or columns"),
        ({"sample": {"input_shape": [3]}}, "labels are for classification"),
        (
            {"sample": {"task": "regression", "input_shape": [3], "labels": ["a"]}},
            "labels are for classification",
        ),
        (
            {"mode": "lock-step", "training": {"keep_best": 0.2, "patience": 3}},
            "in lock-step every member plays every round",
        ),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        federation(**change)


@pytest.mark.parametrize(
    "schema",
    [
        Schema("classification", (64,), 2, ("0", "1")),
        Schema("regression", (5,), 3),
        Schema(
            "classification",
            (4,),
            2,
            ("n", "y"),
            (TableColumn("age"), TableColumn("sex", ("f", "m", "x"))),
        ),
    ],
)
def test_a_schema_can_be_agreed_on(schema: Schema) -> None:
    assert SampleOptions.from_schema(schema).as_schema() == schema
