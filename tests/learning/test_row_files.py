import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from federico.errors import RunError
from federico.learning import row_files as module
from federico.learning.row_files import LARGE, RowFile, RowFiles

SIZE = LARGE // 4 + 3
BOTH = pytest.mark.parametrize("size", [5, SIZE], ids=["small", "large"])


def open_files(folder: Path) -> int:
    """Of this folder, with a name or without."""
    return sum(str(folder) in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())


def numbers(size: int) -> np.ndarray:
    return np.linspace(-1, 1, size, dtype=np.float32)


@BOTH
def test_what_is_put_in_in_parts_comes_out_whole_and_in_parts(size: int, tmp_path: Path) -> None:
    row, row_file = numbers(size), RowFile(size, "float32", tmp_path)
    for part in (slice(2, size), slice(0, 2)):
        row_file[part] = row[part]
    assert np.array_equal(row_file.look(), row)
    assert np.array_equal(row_file[1:4], row[1:4])
    assert np.array_equal(row_file[:], row)


def test_a_disk_that_takes_a_little_at_a_time_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[: LARGE // 3], at))
    assert np.array_equal(RowFile.of(numbers(SIZE)).look(), numbers(SIZE))


@BOTH
def test_a_copy_does_not_follow_what_it_was_made_of(size: int) -> None:
    row = numbers(size)
    row_file = RowFile.of(row)
    row += 1
    assert np.array_equal(row_file.look(), numbers(size))


@BOTH
def test_what_is_changed_in_sight_is_changed(size: int) -> None:
    row_file = RowFile.of(numbers(size))
    row = row_file.look()
    row *= 2
    del row
    assert np.array_equal(row_file[:], 2 * numbers(size))


def test_large_rows_are_files_without_a_name_and_gone_with_the_drawer(tmp_path: Path) -> None:
    row_file = RowFile.of(numbers(SIZE), tmp_path)
    assert row_file.filed
    assert not RowFile.of(numbers(5), tmp_path).filed
    assert open_files(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    seen = row_file.look()
    del row_file
    gc.collect()
    assert np.array_equal(seen, numbers(SIZE)), "who looks at it still sees it"
    del seen
    assert open_files(tmp_path) == 0


def test_rows_of_the_exchange_are_tensors_one_by_one() -> None:
    rows = RowFiles([RowFile.of(numbers(SIZE) + k) for k in range(3)])
    assert len(rows) == 3
    for k, row in enumerate(rows):
        assert torch.equal(row, torch.from_numpy(numbers(SIZE) + k))
    assert [row[0].item() for row in rows[1:]] == [0.0, 1.0]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "reserve", full)
    with pytest.raises(RunError, match="No space left"):
        RowFile(SIZE, "float32", tmp_path)
    RowFile(5, "float32", tmp_path)
    assert not RowFile.somewhere(SIZE, "float32", tmp_path).filed


def test_a_disk_that_fills_up_while_it_is_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RunError, match=r"quota exceeded\); free some space"):
        RowFile.of(numbers(SIZE), tmp_path)
    row_files = RowFiles([RowFile(SIZE, "float32", tmp_path)])
    row_files[0] = torch.from_numpy(numbers(SIZE))
    assert not row_files.row_files[0].filed, "a peer's own update is kept in memory"
    assert torch.equal(row_files[0], torch.from_numpy(numbers(SIZE)))
