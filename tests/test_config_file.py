from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from federico.config_file import nearest, read_tables, validated
from federico.errors import ConfigError
from federico.options import Options


class Circle(Options):
    kind: Literal["circle"] = "circle"
    radius: float = 1.0


class Square(Options):
    kind: Literal["square"] = "square"
    side: int = 1


class Corner(Options):
    x: int
    y: int = 0


class Drawing(Options):
    title: str = "untitled"
    shape: Annotated[Circle | Square, Field(discriminator="kind")] = Circle()
    frame: Corner | None = None
    corners: tuple[Corner, ...] = ()


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        (
            {"titel": "a"},
            "titel: there is no such key (did you mean 'title'?); "
            "allowed: title, shape, frame, corners",
        ),
        (
            {"shape": {"kind": "square", "radius": 2}},
            "shape.radius: there is no such key; allowed: kind, side",
        ),
        (
            {"side": 2},
            "side: there is no such key (did you mean 'shape.side'?); "
            "allowed: title, shape, frame, corners",
        ),
        ({"shape": {"radius": 2}}, "shape.kind: missing; allowed: circle, square"),
        (
            {"shape": {"kind": "circel"}},
            "shape.kind = 'circel': there is no such kind (did you mean 'circle'?); "
            "allowed: circle, square",
        ),
        ({"frame": {"y": 1}}, "frame.x: Field required"),
        (
            {"corners": [{"x": 1}, {"x": 1, "z": 2}]},
            "corners.1.z: there is no such key; allowed: x, y",
        ),
    ],
)
def test_a_fault_names_the_key_and_what_is_allowed(tables: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(Drawing, tables, "file.toml")
    assert str(caught.value) == f"file.toml: {line}"


def test_a_wrong_value_is_shown_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"^here: shape\.side = 'x': .*valid integer"):
        validated(Drawing, {"shape": {"kind": "square", "side": "x"}}, "here")


def test_all_faults_are_listed_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        validated(Drawing, {"titel": "a", "shape": {"kind": "square", "side": "x"}}, "here")
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("here: ") for line in lines)


def test_tables_become_options() -> None:
    drawing = validated(Drawing, {"shape": {"kind": "square", "side": 3}}, "here")
    assert drawing == Drawing(shape=Square(side=3))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: there is no such drawing"):
        read_tables(tmp_path / "gone.toml", "drawing")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_tables(tmp_path, "drawing")

    (tmp_path / "bad.toml").write_text("title = ")
    with pytest.raises(ConfigError, match=r"bad\.toml: not a readable TOML file"):
        read_tables(tmp_path / "bad.toml", "drawing")
    (tmp_path / "bad.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ConfigError, match=r"bad\.toml: not a readable TOML file"):
        read_tables(tmp_path / "bad.toml", "drawing")


def test_only_a_near_word_is_suggested() -> None:
    assert nearest("locl", ["federico", "local"]) == " (did you mean 'local'?)"
    assert nearest("xyz", ["federico", "local"]) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("a = " + "{b = " * 100_000, "nested too deeply"),
        ("a = " + "1" * 10_000, "digits"),
    ],
)
def test_what_no_person_writes_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "file.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"not a readable TOML file: .*{said}"):
        read_tables(file, "experiment file")
