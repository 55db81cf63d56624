from dataclasses import replace
from pathlib import Path

import pytest

from federico.errors import ConfigError, RunError
from federico.runs.comparison import Comparison
from federico.site.status import (
    MemberStatus,
    Status,
    find_state_folder,
    read_status,
    write_status,
)

STATUS = Status(
    "hospitals",
    "north",
    17,
    "training",
    0.0,
    3,
    30,
    members={"south": MemberStatus(False, 1.0, True, "good", 0, "")},
)


def test_what_was_said_is_read(tmp_path: Path) -> None:
    write_status(tmp_path, STATUS)
    write_status(tmp_path, replace(STATUS, round=4))
    assert read_status(tmp_path) == replace(STATUS, round=4)
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_what_a_site_is_alone_and_together_is_read(tmp_path: Path) -> None:
    alone = {"accuracy": 0.5, "loss": 1.0}
    together = {"accuracy": 0.8, "loss": 0.5}
    used = {"accuracy": None, "loss": None}
    comparison = Comparison(alone, together, used, 0.9)
    compared = replace(STATUS, evaluated=2, comparison=comparison)
    write_status(tmp_path, compared)
    assert read_status(tmp_path) == compared


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no peer has been started"),
        ("{}", "cannot be read"),
        ("?", "cannot be read"),
        pytest.param("[" * 100_000, "cannot be read", id="nested"),
    ],
)
def test_a_status_that_is_none_is_named(tmp_path: Path, content: str | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "status.json").write_text(content)
    with pytest.raises(RunError, match=reason):
        read_status(tmp_path)


@pytest.mark.parametrize(
    ("text", "folder"),
    [("", "state"), ('state = "elsewhere"', "elsewhere"), ('[data]\nkind = "gone"', "state")],
)
def test_a_site_file_leads_to_its_state_folder_whatever_else_it_says(
    tmp_path: Path, text: str, folder: str
) -> None:
    file = tmp_path / "site.toml"
    file.write_text(text)
    assert find_state_folder(file) == tmp_path / folder


def test_a_state_folder_that_is_no_path_is_named(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text("state = 7")
    with pytest.raises(ConfigError, match=r"site.toml: state = 7"):
        find_state_folder(file)
