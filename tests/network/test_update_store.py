import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from federico.learning.rows import LARGE, RowFile
from federico.network.protocol import IncomingUpdate, StoreChunk
from federico.network.update_store import UpdateStore
from federico.network.wire.messages import Kind, MessageHeader, SignedMessage
from federico.network.wire.schema import ChunkPlan

SMALL = ChunkPlan(size=10, width=4, chunk_numbers=4)
BIG = ChunkPlan(size=LARGE // 2, width=4, chunk_numbers=LARGE // 8)
"""Of rows that wait in files."""


@pytest.fixture
def update() -> IncomingUpdate:
    header = MessageHeader(
        Kind.UPDATE, b"f", b"s", 0, 1, 1, 1, 1, 1.0, 40, 4, digest=b"d", nonce=b"n", sent_at=0.0
    )
    return IncomingUpdate(SignedMessage(header, ()))


def store_all(
    store: UpdateStore, plan: ChunkPlan, update: IncomingUpdate, numbers: np.ndarray
) -> None:
    for index, chunk in enumerate(plan):
        assert store.store(StoreChunk(update, index, numbers[chunk], 1.0))


@pytest.mark.parametrize("plan", [SMALL, BIG], ids=["in memory", "in a file"])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_chunks_put_together_are_the_update(
    update: IncomingUpdate, tmp_path: Path, plan: ChunkPlan, factor: float
) -> None:
    store = UpdateStore(plan, "float32", tmp_path)
    numbers = np.arange(plan.size, dtype=np.float32)
    assert store.make_room(update)
    store_all(store, plan, update, numbers)
    assert np.array_equal(store.take(update, factor).look(), numbers * np.float32(factor))


def test_an_update_that_is_dropped_gives_its_room_back(
    update: IncomingUpdate, tmp_path: Path
) -> None:
    store = UpdateStore(BIG, "float32", tmp_path)
    dropped = IncomingUpdate(update.offer)
    before = open_files()
    assert store.make_room(dropped)
    assert open_files() == before + 1
    del dropped
    assert open_files() == before


def open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_where_there_is_no_room_nothing_is_taken(
    update: IncomingUpdate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = UpdateStore(BIG, "float32", tmp_path / "is not there")
    assert not store.make_room(update)
    assert "an update cannot be taken" in caplog.text


@contextmanager
def failing_disk() -> Iterator[None]:
    """No file can be written to beyond its first bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE // 4, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fails_loses_a_chunk_and_not_the_update(
    update: IncomingUpdate, tmp_path: Path
) -> None:
    store = UpdateStore(BIG, "float32", tmp_path)
    numbers = np.arange(BIG.size, dtype=np.float32)
    assert store.make_room(update)
    last = StoreChunk(update, 3, numbers[BIG.chunk(3)], 1.0)
    with failing_disk():
        assert not store.store(last)
    store_all(store, BIG, update, numbers)
    assert np.array_equal(store.take(update, 1.0).look(), numbers)


def test_the_length_of_a_row(tmp_path: Path) -> None:
    store = UpdateStore(SMALL, "float32", tmp_path)
    row = np.arange(10, dtype=np.float32)
    assert store.length(RowFile.of(row)) == pytest.approx(float(np.linalg.norm(row)))
    row[9] = np.nan
    assert not np.isfinite(store.length(RowFile.of(row)))


def test_updates_are_gathered_in_the_order_they_are_given(tmp_path: Path) -> None:
    store = UpdateStore(SMALL, "float32", tmp_path)
    rows = [RowFile.of(np.full(10, value, np.float32)) for value in (1.0, 2.0)]
    updates = store.gather(7, [(3, 0.5, rows[0]), (4, 1.5, rows[1])])
    assert updates.owners.tolist() == [7, 7]
    assert updates.contributors.tolist() == [3, 4]
    assert updates.coefficients.tolist() == [0.5, 1.5]
    assert updates.rows.as_tensor().tolist() == [[1.0] * 10, [2.0] * 10]


def test_no_update_at_all_is_an_empty_table(tmp_path: Path) -> None:
    updates = UpdateStore(SMALL, "float64", tmp_path).gather(7, [])
    assert updates.rows.as_tensor().shape == (0, 10)
    assert updates.rows.as_tensor().dtype == torch.float64
