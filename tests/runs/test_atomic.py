import errno
import os
from pathlib import Path

import pytest

from federico.errors import RunError
from federico.runs.atomic import disk_errors, publish, publish_text
from federico.runs.lock import locked


def test_text_is_published_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    publish_text(tmp_path / "a.json", "one")
    publish_text(tmp_path / "a.json", "tworld \u00e9")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "tworld \u00e9"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_link_in_the_folder_of_a_stranger_leads_nowhere(tmp_path: Path) -> None:
    """Neither the file itself nor the name that it has before it is whole."""
    mine = tmp_path / "mine"
    mine.write_text("my own")
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("report.html", "report.html.partial", ".lock"):
        (folder / name).symlink_to(mine)
    publish_text(folder / "report.html", "theirs")
    with locked(folder):
        pass
    assert mine.read_text() == "my own"
    assert (folder / "report.html").read_text() == "theirs"
    assert not (folder / "report.html").is_symlink()


def test_write_that_fails_leaves_the_old_file_and_no_partial(tmp_path: Path) -> None:
    publish_text(tmp_path / "a", "old")

    def half(partial: Path) -> None:
        partial.write_text("ha")
        raise ValueError("the writer broke")

    with pytest.raises(ValueError, match="the writer broke"):
        publish(tmp_path / "a", half)
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_content_reaches_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spy_fsync(handle: int) -> None:
        steps.append("folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "file")
        fsync(handle)

    def spy_replace(self: Path, target: Path) -> Path:
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    publish_text(tmp_path / "a", "text")
    assert steps == ["file", "name", "folder"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_says_that_nothing_is_lost(number: int) -> None:
    with (
        pytest.raises(RunError, match=r"here: no space left on the disk\. Nothing is lost") as said,
        disk_errors(Path("here")),
    ):
        raise OSError(number, os.strerror(number))
    assert "free some space and start the same command again" in str(said.value)
    assert os.strerror(number) in str(said.value), "a quota is not a full disk"


def test_other_trouble_is_named_with_its_path() -> None:
    with (
        pytest.raises(RunError, match="here: cannot be written: Permission denied"),
        disk_errors(Path("here")),
    ):
        raise OSError(errno.EACCES, "Permission denied")
