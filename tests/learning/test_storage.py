import gc
import os
from pathlib import Path

import pytest
import torch

from federico import compat
from federico.errors import RunError
from federico.learning import storage
from federico.learning.row_files import LARGE, RowFiles
from federico.learning.storage import Storage

CPU = torch.device("cpu")


def test_tensors_on_disk_hold_what_was_written(tmp_path: Path) -> None:
    rows = Storage(tmp_path).empty(3, 5, dtype=torch.float64, device=CPU)
    rows.copy_(torch.arange(15).view(3, 5))
    rows[1].add_(1)
    assert rows.tolist() == [[0, 1, 2, 3, 4], [6, 7, 8, 9, 10], [10, 11, 12, 13, 14]]
    assert rows.dtype == torch.float64


def test_tensors_on_disk_are_files_without_a_name(tmp_path: Path) -> None:
    rows = Storage(tmp_path).empty(1000, 1000, dtype=torch.float32, device=CPU)
    assert list(tmp_path.iterdir()) == []
    assert mapped(tmp_path) == 1
    del rows
    assert mapped(tmp_path) == 0, "the room is given back"


def mapped(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_tensors_in_memory_are_of_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "TemporaryFile", pytest.fail)
    assert Storage().empty(2, 3, dtype=torch.float32, device=CPU).shape == (2, 3)
    assert Storage(tmp_path).empty(0, 3, dtype=torch.float32, device=CPU).shape == (0, 3)
    assert (
        Storage(tmp_path).empty(2, 3, dtype=torch.float32, device=torch.device("meta")).device.type
        == "meta"
    )


def test_thousands_of_tensors_need_no_open_files(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (the folder changes while it is read)

    before = open_files()
    held = [Storage(tmp_path).empty(1, dtype=torch.float32, device=CPU) for _ in range(50)]
    assert open_files() == before
    assert len(held) == 50


def test_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    room = os.statvfs(tmp_path)
    too_much = room.f_blocks * room.f_frsize // 4
    with pytest.raises(RunError, match=r"no room for \d+ MiB of models .* allow more `memory`"):
        Storage(tmp_path).empty(2, too_much, dtype=torch.float32, device=CPU)


def test_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no room for 4 MiB of models .*No such file"):
        Storage(tmp_path / "gone").empty(1 << 20, dtype=torch.float32, device=CPU)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_of_large_tensors_is_given_back() -> None:
    """The heap would keep it: between two that go there is one that stays."""
    compat.keep_freed_memory()

    before = resident()
    rows = [Storage().empty(4 << 20, dtype=torch.float32, device=CPU).fill_(1) for _ in range(8)]
    assert resident() - before > 100 << 20
    assert sum(int(row[-1]) for row in rows) == 8
    del rows[::2]
    assert resident() - before < 80 << 20


def test_a_tensor_lives_as_long_as_its_last_view() -> None:
    row = Storage().empty(2, 1 << 20, dtype=torch.float32, device=CPU).fill_(3)[1]
    gc.collect()
    assert row.sum().item() == 3 << 20


def rows_of(storage: Storage, megabytes: int) -> torch.Tensor:
    return storage.empty(megabytes, 1 << 18, dtype=torch.float32, device=CPU, every_round=True)


def test_memory_of_a_tensor_that_is_gone_is_used_again() -> None:
    storage = Storage()
    first = rows_of(storage, 8)
    place = first.data_ptr()
    view = first[3]
    del first
    second = rows_of(storage, 8)
    assert second.data_ptr() != place, "a view of it is still there"
    del view
    assert rows_of(storage, 6).data_ptr() == place


def test_memory_that_is_asked_for_once_is_given_back() -> None:
    storage = Storage()
    rows = storage.empty(64, 1 << 18, dtype=torch.float32, device=CPU).fill_(1)
    before = resident()
    del rows
    assert before - resident() > 60 << 20


def test_what_lies_idle_goes_when_something_else_is_wanted() -> None:
    storage = Storage()
    rows_of(storage, 64).fill_(1)
    before = resident()
    small = rows_of(storage, 2)  # far too small for that map
    assert before - resident() > 60 << 20
    assert small.shape == (2, 1 << 18)


def test_two_at_a_time_need_no_more_than_two_maps() -> None:
    storage, places = Storage(), set()
    for _ in range(5):
        updates, copy = rows_of(storage, 4), rows_of(storage, 9)
        places |= {updates.data_ptr(), copy.data_ptr()}
        assert updates.data_ptr() != copy.data_ptr()
        del updates, copy
    assert len(places) == 2


def test_moves_that_will_be_sent_take_no_memory(tmp_path: Path) -> None:
    size, row = LARGE, torch.ones(LARGE)
    before = resident()
    moves = Storage(outbox=tmp_path).moves(20, size, dtype=torch.float32, device=CPU)
    for place in range(20):
        moves[place] = row
    assert resident() - before < 20 << 20
    assert [float(move.sum()) for move in moves] == [float(size)] * 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [10, LARGE])
def test_moves_that_stay_here_or_are_small_lie_side_by_side(tmp_path: Path, size: int) -> None:
    where = Storage() if size == LARGE else Storage(outbox=tmp_path)
    assert isinstance(where.moves(2, size, dtype=torch.float32, device=CPU), torch.Tensor)
    assert isinstance(
        Storage(tmp_path, tmp_path).moves(2, LARGE, dtype=torch.float64, device=CPU), RowFiles
    )
