from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from federico.data.partition import Partitioning
from federico.data.sources import SOURCES, Digits, Source, SourceOptions, list_sources


def test_presence_follows_the_files(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-binary").mkdir()
    present = {entry.kind: entry.present for entry in list_sources(tmp_path)}
    assert present == {
        "digits": True,
        "sine": True,
        "cifar10": False,
        "cifar100": True,
        "office-home": False,
        "fed-heart-disease": False,
        "npz": None,
        "table": None,
        "image-folder": None,
    }


def test_every_kind_says_in_one_line_what_it_is(tmp_path: Path) -> None:
    assert all(entry.summary and "\n" not in entry.summary for entry in list_sources(tmp_path))


def test_kind_picks_the_options() -> None:
    adapter: TypeAdapter[SourceOptions] = TypeAdapter(Source)
    assert adapter.validate_python({"kind": "digits", "noise": 0.5}) == Digits(noise=0.5)
    with pytest.raises(ValidationError, match="does not match any of the expected tags"):
        adapter.validate_python({"kind": "mnist"})


def test_every_option_is_described() -> None:
    for model in (*SOURCES, *Partitioning.__origin__.__args__):
        assert [name for name, field in model.model_fields.items() if not field.description] == []
