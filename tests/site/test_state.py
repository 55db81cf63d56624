from dataclasses import replace
from pathlib import Path

import pytest

from federico.errors import RunError
from federico.site.site_file import Site
from federico.site.state import Member, Status, opened, read_status, write_status

STATUS = Status(
    "hospitals",
    "north",
    17,
    "training",
    0.0,
    3,
    30,
    members={"south": Member(False, 1.0, True, "good", 0, "")},
)


def test_what_was_said_is_read(tmp_path: Path) -> None:
    write_status(tmp_path, STATUS)
    write_status(tmp_path, replace(STATUS, round=4))
    assert read_status(tmp_path) == replace(STATUS, round=4)
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "no peer has been started"), ("{}", "cannot be read"), ("?", "cannot be read")],
)
def test_a_status_that_is_none_is_named(tmp_path: Path, content: str | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "status.json").write_text(content)
    with pytest.raises(RunError, match=reason):
        read_status(tmp_path)


def test_one_process_at_a_time(north: Site) -> None:
    with opened(north), pytest.raises(RunError, match="another process"), opened(north):
        pass


def test_a_state_belongs_to_one_version_of_the_federation_file(north: Site) -> None:
    with opened(north):
        pass
    with opened(north):
        pass
    other = Site(north.options, north.agreement.model_copy(update={"seed": 1}), north.folder)
    with pytest.raises(RunError, match="another version of the federation file"), opened(other):
        pass
