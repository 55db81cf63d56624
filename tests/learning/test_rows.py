"""Rows are the same numbers wherever they lie."""

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from federico import compat
from federico.errors import RunError
from federico.learning.rows import LARGE, RowFile, Rows, RowsInFiles, RowStorage

CPU = torch.device("cpu")
SIZE = LARGE // 4 + 3
BOTH = pytest.mark.parametrize("size", [5, SIZE], ids=["small", "large"])


def open_files(folder: Path) -> int:
    """Of this folder, with a name or without."""
    return sum(str(folder) in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())


def numbers(size: int) -> np.ndarray:
    return np.linspace(-1, 1, size, dtype=np.float32)


@BOTH
def test_what_is_put_in_in_parts_comes_out_whole_and_in_parts(size: int, tmp_path: Path) -> None:
    row, file = numbers(size), RowFile(size, "float32", tmp_path)
    for part in (slice(2, size), slice(0, 2)):
        file[part] = row[part]
    assert np.array_equal(file.look(), row)
    assert np.array_equal(file[1:4], row[1:4])
    assert np.array_equal(file[:], row)


def test_a_disk_that_takes_a_little_at_a_time_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[: LARGE // 3], at))
    assert np.array_equal(RowFile.of(numbers(SIZE)).look(), numbers(SIZE))


@BOTH
def test_a_copy_does_not_follow_what_it_was_made_of(size: int) -> None:
    row = numbers(size)
    file = RowFile.of(row)
    row += 1
    assert np.array_equal(file.look(), numbers(size))


@BOTH
def test_what_is_changed_in_sight_is_changed(size: int) -> None:
    file = RowFile.of(numbers(size))
    row = file.look()
    row *= 2
    del row
    assert np.array_equal(file[:], 2 * numbers(size))


def test_large_rows_are_files_without_a_name_and_gone_with_their_holder(tmp_path: Path) -> None:
    file = RowFile.of(numbers(SIZE), tmp_path)
    assert file.on_disk
    assert not RowFile.of(numbers(5), tmp_path).on_disk
    assert open_files(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    seen = file.look()
    del file
    gc.collect()
    assert np.array_equal(seen, numbers(SIZE)), "who looks at it still sees it"
    del seen
    assert open_files(tmp_path) == 0


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """A disk that is full, for this process alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with no_file_longer_than(1000):
        with pytest.raises(RunError, match=r"no room for a model on its way .*; free some space"):
            RowFile(SIZE, "float32", tmp_path)
        RowFile(5, "float32", tmp_path)
        assert not RowFile.somewhere(SIZE, "float32", tmp_path).on_disk
        kept = RowFile.keeping(numbers(SIZE), tmp_path)
    assert not kept.on_disk
    assert np.array_equal(kept.look(), numbers(SIZE))


def test_a_disk_that_fills_up_while_it_is_written_is_named(tmp_path: Path) -> None:
    file = RowFile(SIZE, "float32", tmp_path)
    rows = RowsInFiles([file])
    with no_file_longer_than(1000):
        with pytest.raises(RunError, match="free some space"):
            file[:] = numbers(SIZE)
        rows.write(np.array([0]), torch.from_numpy(numbers(SIZE))[None])
    assert not file.on_disk, "a peer's own update is kept in memory"
    assert torch.equal(rows[0], torch.from_numpy(numbers(SIZE)))


EVERYWHERE = pytest.mark.parametrize("where", ["tensor", "files", "memory"])


def put(tensor: torch.Tensor, where: str) -> Rows:
    """These rows in one tensor, or one by one: on the disk, or in memory for lack of a disk."""
    if where == "tensor":
        return Rows.of(tensor.clone())
    files = [RowFile(tensor.shape[1], "float32", on_disk=where == "files") for _ in tensor]
    rows = RowsInFiles(files)
    rows.write(np.arange(len(tensor)), tensor)
    return rows


@EVERYWHERE
@pytest.mark.parametrize("size", [5, SIZE], ids=["short", "long"])
def test_rows_are_the_same_wherever_they_lie(where: str, size: int) -> None:
    tensor = torch.randn(3, size, generator=torch.Generator().manual_seed(0))
    rows = put(tensor, where)
    assert len(rows) == 3
    assert torch.equal(rows[1], tensor[1])
    assert torch.equal(rows.as_tensor(), tensor)
    assert all(torch.equal(row, given) for row, given in zip(rows, tensor, strict=True))
    assert torch.equal(rows.take(np.array([2, 0])).as_tensor(), tensor[[2, 0]])
    torch.testing.assert_close(rows.sums(), tensor.sum(1), rtol=1e-4, atol=1e-3)
    rows[0].zero_()
    assert rows.as_tensor()[0].eq(0).all(), "a row is not a copy"


@EVERYWHERE
@pytest.mark.parametrize("size", [5, SIZE], ids=["short", "long"])
def test_rows_are_written_and_added_the_same_wherever_they_lie(where: str, size: int) -> None:
    rows = put(torch.zeros(3, size), where)
    models = torch.stack([torch.full((size,), 1.0), torch.full((size,), 5.0)])
    trained = torch.stack([torch.full((size,), 7.0), torch.full((size,), 2.0)])
    rows.write_differences(np.array([2, 0]), trained, models, torch.tensor([1, 0]))
    assert rows.as_tensor()[:, 0].tolist() == [1, 0, 2], "2 - 1, not written, 7 - 5"

    shares = np.array([0.5, 1.0, 0.25])
    rows.add_to(models, torch.tensor([0, 1, 0]), shares, slice(1, None))
    assert models[0].unique().tolist() == [1, 2], "1 + 0.5 * 1 + 0.25 * 2, but for the first column"
    assert models[0, 0] == 1
    assert models[1].eq(5).all()


@EVERYWHERE
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_row_with_a_number_that_is_none_is_found(where: str, wrong: float) -> None:
    tensor = torch.ones(3, 5)
    tensor[1, 3] = wrong
    assert put(tensor, where).finite().tolist() == [True, False, True]


@EVERYWHERE
def test_rows_can_wait_one_by_one(where: str, tmp_path: Path) -> None:
    tensor = torch.stack([torch.from_numpy(numbers(SIZE)) + k for k in range(3)])
    files = put(tensor, where).as_files(tmp_path)
    assert [file.on_disk for file in files] == [where != "memory"] * 3
    assert all(
        np.array_equal(file[:], row.numpy()) for file, row in zip(files, tensor, strict=True)
    )


@pytest.mark.parametrize("on_disk", [True, False])
def test_rows_that_have_waited_are_rows_again(on_disk: bool) -> None:
    files = [RowFile(SIZE, "float32", on_disk=on_disk) for _ in range(2)]
    for k, file in enumerate(files):
        file[:] = numbers(SIZE) + k
    rows = Rows.of_files(files, SIZE, torch.float32)
    assert isinstance(rows, RowsInFiles) is on_disk
    assert [row[0].item() for row in rows] == [-1, 0]


def test_no_rows_are_rows_of_the_right_length() -> None:
    assert Rows.of_files([], 7, torch.float64).as_tensor().shape == (0, 7)


def test_tensors_on_disk_hold_what_was_written(tmp_path: Path) -> None:
    rows = RowStorage(tmp_path).empty(3, 5, dtype=torch.float64, device=CPU)
    rows.copy_(torch.arange(15).view(3, 5))
    rows[1].add_(1)
    assert rows.tolist() == [[0, 1, 2, 3, 4], [6, 7, 8, 9, 10], [10, 11, 12, 13, 14]]
    assert rows.dtype == torch.float64


def test_tensors_on_disk_are_files_without_a_name(tmp_path: Path) -> None:
    rows = RowStorage(tmp_path).empty(1000, 1000, dtype=torch.float32, device=CPU)
    assert list(tmp_path.iterdir()) == []
    assert mapped(tmp_path) == 1
    del rows
    assert mapped(tmp_path) == 0, "the room is given back"


def mapped(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_what_is_empty_or_elsewhere_needs_no_file(tmp_path: Path) -> None:
    assert RowStorage().empty(2, 3, dtype=torch.float32, device=CPU).shape == (2, 3)
    assert RowStorage(tmp_path).empty(0, 3, dtype=torch.float32, device=CPU).shape == (0, 3)
    assert (
        RowStorage(tmp_path)
        .empty(2, 3, dtype=torch.float32, device=torch.device("meta"))
        .device.type
        == "meta"
    )


def test_thousands_of_tensors_need_no_open_files(tmp_path: Path) -> None:
    def open_files() -> int:
        # Not Path.iterdir: the folder changes while it is read.
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    before = open_files()
    held = [RowStorage(tmp_path).empty(1, dtype=torch.float32, device=CPU) for _ in range(50)]
    assert open_files() == before
    assert len(held) == 50


def test_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    room = os.statvfs(tmp_path)
    too_much = room.f_blocks * room.f_frsize // 4
    with pytest.raises(RunError, match=r"no room for \d+ MiB of models .* allow more `memory`"):
        RowStorage(tmp_path).empty(2, too_much, dtype=torch.float32, device=CPU)


def test_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no room for 4 MiB of models .*No such file"):
        RowStorage(tmp_path / "gone").empty(1 << 20, dtype=torch.float32, device=CPU)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_of_large_tensors_is_given_back() -> None:
    """The heap would keep it: between two that go there is one that stays."""
    compat.keep_freed_memory()

    before = resident()
    rows = [RowStorage().empty(4 << 20, dtype=torch.float32, device=CPU).fill_(1) for _ in range(8)]
    assert resident() - before > 100 << 20
    assert sum(int(row[-1]) for row in rows) == 8
    del rows[::2]
    assert resident() - before < 80 << 20


def test_a_tensor_lives_as_long_as_its_last_view() -> None:
    row = RowStorage().empty(2, 1 << 20, dtype=torch.float32, device=CPU).fill_(3)[1]
    gc.collect()
    assert row.sum().item() == 3 << 20


def rows_of(storage: RowStorage, megabytes: int) -> torch.Tensor:
    return storage.empty(megabytes, 1 << 18, dtype=torch.float32, device=CPU, every_round=True)


def test_memory_of_a_tensor_that_is_gone_is_used_again() -> None:
    storage = RowStorage()
    first = rows_of(storage, 8)
    place = first.data_ptr()
    view = first[3]
    del first
    second = rows_of(storage, 8)
    assert second.data_ptr() != place, "a view of it is still there"
    del view
    assert rows_of(storage, 6).data_ptr() == place


def test_memory_that_is_asked_for_once_is_given_back() -> None:
    storage = RowStorage()
    rows = storage.empty(64, 1 << 18, dtype=torch.float32, device=CPU).fill_(1)
    before = resident()
    del rows
    assert before - resident() > 60 << 20


def test_what_lies_idle_goes_when_something_else_is_wanted() -> None:
    storage = RowStorage()
    rows_of(storage, 64).fill_(1)
    before = resident()
    small = rows_of(storage, 2)  # far too small for that map
    assert before - resident() > 60 << 20
    assert small.shape == (2, 1 << 18)


def test_two_at_a_time_need_no_more_than_two_maps() -> None:
    storage, places = RowStorage(), set()
    for _ in range(5):
        updates, copy = rows_of(storage, 4), rows_of(storage, 9)
        places |= {updates.data_ptr(), copy.data_ptr()}
        assert updates.data_ptr() != copy.data_ptr()
        del updates, copy
    assert len(places) == 2


def test_deltas_that_will_be_sent_take_no_memory(tmp_path: Path) -> None:
    size, row = LARGE, torch.ones(1, LARGE)
    before = resident()
    deltas = RowStorage(outbox=tmp_path).deltas(20, size, dtype=torch.float32, device=CPU)
    for place in range(20):
        deltas.write(np.array([place]), row)
    assert resident() - before < 20 << 20
    assert [float(delta.sum()) for delta in deltas] == [float(size)] * 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("size", "sent", "apart"), [(10, True, False), (LARGE, False, False), (LARGE, True, True)]
)
def test_only_large_deltas_that_will_be_sent_lie_apart(
    tmp_path: Path, size: int, sent: bool, apart: bool
) -> None:
    storage = RowStorage(tmp_path, outbox=tmp_path if sent else None)
    deltas = storage.deltas(2, size, dtype=torch.float64, device=CPU)
    assert isinstance(deltas, RowsInFiles) is apart
