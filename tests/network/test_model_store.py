from pathlib import Path

import numpy as np
import pytest

from federico.errors import RunError
from federico.learning.rows import LARGE, RowFile
from federico.network.model_store import GRACE, OLDER, ModelStore, digest_of, digests_of
from federico.network.wire.messages import RefusedError
from federico.network.wire.schema import ChunkPlan

LAYOUT = ChunkPlan(size=10, width=4, chunk=4)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shelf(clock: Clock) -> ModelStore:
    return ModelStore(LAYOUT, "float32", clock=clock)


def row(value: float) -> np.ndarray:
    return np.full(10, value, np.float32)


def published(shelf: ModelStore, version: int, numbers: np.ndarray) -> bytes:
    shelf.publish(version, numbers)
    assert shelf.newest is not None
    return shelf.newest.digest


def read(shelf: ModelStore, digest: bytes, reader: int = 1) -> np.ndarray:
    return np.frombuffer(
        b"".join(shelf.chunk(digest, reader, k) for k in range(LAYOUT.chunks)), np.float32
    )


def test_nothing_is_there_before_the_first_edition(shelf: ModelStore) -> None:
    assert shelf.newest is None


def test_chunks_put_together_are_the_row(shelf: ModelStore) -> None:
    numbers = np.arange(10, dtype=np.float32)
    digest = published(shelf, 3, numbers)
    assert np.array_equal(read(shelf, digest), numbers)
    assert shelf.newest.version == 3
    chunks = [numbers[part] for part in LAYOUT.parts]
    assert digest == digest_of(digests_of(chunks)) == digest_of(shelf.newest.digests)


def test_the_row_is_served_where_it_lies(shelf: ModelStore) -> None:
    numbers = row(1)
    published(shelf, 1, numbers)
    assert shelf.newest.packed is numbers


def test_who_is_reading_gets_the_rest_of_what_it_began(shelf: ModelStore) -> None:
    numbers = row(1)
    first = published(shelf, 1, numbers)
    shelf.chunk(first, 1, 0)
    shelf.settle()
    numbers += 1
    second = published(shelf, 2, numbers)
    assert np.array_equal(
        np.frombuffer(shelf.chunk(first, 1, 1), np.float32), np.ones(4, np.float32)
    )
    assert np.array_equal(read(shelf, second, reader=2), row(2))


def test_while_a_row_changes_nobody_gets_it(shelf: ModelStore) -> None:
    digest = published(shelf, 1, row(1))
    read(shelf, digest)
    shelf.settle()
    assert shelf.newest is None
    with pytest.raises(RefusedError, match="gone"):
        shelf.chunk(digest, 1, 0)


def test_an_old_edition_goes_when_its_last_reader_is_through(shelf: ModelStore) -> None:
    numbers = row(1)
    first = published(shelf, 1, numbers)
    for reader in (1, 2):
        shelf.chunk(first, reader, 0)
    shelf.settle()
    numbers += 1
    published(shelf, 2, numbers)
    shelf.chunk(first, 1, 1), shelf.chunk(first, 1, 2), shelf.chunk(first, 2, 1)
    shelf.chunk(first, 2, 2)
    with pytest.raises(RefusedError, match="gone"):
        shelf.chunk(first, 3, 0)


def test_a_reader_that_stays_away_is_not_waited_for(shelf: ModelStore, clock: Clock) -> None:
    first = published(shelf, 1, row(1))
    shelf.chunk(first, 1, 0)
    clock.now = GRACE + 1
    shelf.settle()
    assert shelf.newest is None


def test_an_unchanged_row_keeps_its_digest_and_its_readers(shelf: ModelStore) -> None:
    first = published(shelf, 1, row(1))
    shelf.chunk(first, 1, 0)
    assert published(shelf, 2, row(1)) == first
    assert shelf.newest.version == 2
    shelf.chunk(first, 1, 1)


def test_a_row_that_moves_is_served_from_its_new_place(shelf: ModelStore) -> None:
    digest = published(shelf, 1, row(1))
    moved = row(1)
    shelf.move(moved)
    assert shelf.newest.packed is moved
    assert np.array_equal(read(shelf, digest), moved)


def test_rounded_numbers_are_a_copy_that_no_change_reaches(clock: Clock) -> None:
    shelf, numbers = ModelStore(ChunkPlan(10, 2, 4), "float16", clock=clock), row(1)
    digest = published(shelf, 1, numbers)
    shelf.settle()
    numbers += 1
    assert np.frombuffer(shelf.chunk(digest, 1, 0), np.float16).tolist() == [1, 1, 1, 1]


def test_a_large_edition_waits_in_a_file_for_its_readers(clock: Clock, tmp_path: Path) -> None:
    chunk_plan, numbers = (
        ChunkPlan(size=LARGE // 4, width=4, chunk=LARGE // 8),
        np.arange(LARGE // 4, dtype=np.float32),
    )
    shelf = ModelStore(chunk_plan, "float32", tmp_path, clock)
    digest = published(shelf, 1, numbers)
    first = shelf.chunk(digest, 1, 0)
    shelf.settle()
    numbers *= 2
    second = shelf.chunk(digest, 1, 1)
    assert np.array_equal(np.frombuffer(first + second, np.float32), np.arange(LARGE // 4))


def test_where_the_disk_is_full_readers_begin_anew(
    shelf: ModelStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> RowFile:
        raise RunError("no room")

    digest = published(shelf, 1, row(1))
    shelf.chunk(digest, 1, 0)
    monkeypatch.setattr(RowFile, "of", full)
    shelf.settle()
    with pytest.raises(RefusedError, match="gone"):
        shelf.chunk(digest, 1, 1)
    assert "no room" in caplog.text


def test_a_chunk_that_does_not_exist_is_refused(shelf: ModelStore) -> None:
    digest = published(shelf, 1, row(1))
    with pytest.raises(RefusedError, match="chunk 3 of 3"):
        shelf.chunk(digest, 1, 3)


def test_every_start_is_another_epoch(clock: Clock) -> None:
    assert ModelStore(LAYOUT, "float32").epoch != ModelStore(LAYOUT, "float32").epoch


def test_who_reads_slowly_on_purpose_does_not_fill_the_memory(shelf: ModelStore) -> None:
    for version in range(1, 10):
        shelf.chunk(published(shelf, version, row(version)), 1, 0)
        shelf.settle()
    assert len(shelf._editions) == OLDER + 1
