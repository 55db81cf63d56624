"""The log of a peer does not grow for ever."""

import logging
from pathlib import Path

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
