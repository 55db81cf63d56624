"""What a stranger's file may claim: no more than an honest one is read of it."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from federico.bounded_files import LARGEST_FILE, TooLargeError, read_bounded, whole_lines
from federico.config_file import read_tables
from federico.errors import FedericoError
from federico.runs.records import iterate_lines, read_last_record, read_records
from federico.runs.results import read_results
from federico.runs.table import read_table
from federico.site.status import read_status

TERABYTE = 1 << 40


def sparse(path: Path, size: int = TERABYTE) -> Path:
    """A file that says it is this large, and takes nothing on the disk."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_what_is_short_enough_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345\n123\n12")
    assert read_bounded(file, 12) == b"12345\n123\n12"
    assert list(whole_lines(file, most=6)) == [b"12345\n", b"123\n"]
    assert list(whole_lines(file, start=6, most=6)) == [b"123\n"]


@pytest.mark.parametrize(
    "read", [lambda file: read_bounded(file, 11), lambda file: [*whole_lines(file, most=5)]]
)
def test_what_is_longer_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345\n123\n12")
    with pytest.raises(TooLargeError, match="is larger than"):
        read(file)


def test_a_short_file_takes_no_memory_for_what_a_longer_one_might_hold(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    tracemalloc.start()
    read_bounded(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < LARGEST_FILE / 16


def test_what_never_ends_is_refused() -> None:
    with pytest.raises(TooLargeError):
        read_bounded(Path("/dev/zero"), 1000)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "experiment": ("experiment.toml", lambda folder: read_tables(folder / "experiment.toml", "x")),
    "results": ("results.jsonl", read_results),
    "records": ("records.jsonl", read_records),
    "last record": ("records.jsonl", read_last_record),
    "records of the page": ("records.jsonl", lambda folder: list(iterate_lines(folder))),
    "table": ("table.json", read_table),
    "status": ("status.json", read_status),
}


@pytest.mark.parametrize("what", READERS)
def test_a_terabyte_of_nothing_takes_no_memory(tmp_path: Path, what: str) -> None:
    name, read = READERS[what]
    sparse(tmp_path / name)
    tracemalloc.start()
    try:
        with pytest.raises(FedericoError, match="is larger than"):
            read(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 3 * LARGEST_FILE
    finally:
        tracemalloc.stop()
