"""The log of a peer does not grow for ever."""

import logging
from pathlib import Path

import pytest

from federico.cli.logs import FILE_BYTES, OLD_FILES, logging_to

LINE = "x" * 1000


def test_a_log_that_has_grown_is_put_aside_and_only_the_last_few_are_kept(tmp_path: Path) -> None:
    log = logging.getLogger("federico.tests")
    lines = (OLD_FILES + 3) * FILE_BYTES // len(LINE)
    with logging_to(tmp_path / "peer.log", quiet=True):
        for number in range(lines):
            log.info("%d %s", number, LINE)

    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["peer.log", *(f"peer.log.{number}" for number in range(1, OLD_FILES + 1))]
    assert all(path.stat().st_size <= FILE_BYTES for path in tmp_path.iterdir())
    assert f"{lines - 1} {LINE}" in (tmp_path / "peer.log").read_text(), "the newest line is there"


def test_a_line_of_the_log_is_no_order_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(tmp_path / "peer.log", quiet=False):
        logging.getLogger("federico.tests").info("they said \x1b[2J")
    for written in (capsys.readouterr().err, (tmp_path / "peer.log").read_text()):
        assert "they said" in written
        assert "\x1b" not in written
