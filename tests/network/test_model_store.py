from pathlib import Path

import numpy as np
import pytest

from federico.learning.rows import LARGE
from federico.network.model_store import MOST_OLDER, READER_GRACE, ModelStore
from federico.network.wire.encoding import chunk_digests, digest_of_digests
from federico.network.wire.schema import ChunkPlan
from tests.support.clock import Clock

PLAN = ChunkPlan(size=10, width=4, chunk_numbers=4)


@pytest.fixture
def store(clock: Clock) -> ModelStore:
    return ModelStore(PLAN, "float32", clock=clock)


def row(value: float) -> np.ndarray:
    return np.full(10, value, np.float32)


def published(store: ModelStore, version: int, numbers: np.ndarray) -> bytes:
    return store.publish(version, numbers).digest


def chunk(store: ModelStore, digest: bytes, reader: int, index: int) -> list[float]:
    """The numbers of a chunk that is there."""
    found = store.chunk(digest, reader, index)
    assert found is not None
    return np.frombuffer(found, np.float32).tolist()


def read(store: ModelStore, digest: bytes, reader: int = 1) -> list[float]:
    numbers = []
    for index in range(PLAN.chunks):
        numbers += chunk(store, digest, reader, index)
    return numbers


def test_nothing_is_there_before_the_first_version(store: ModelStore) -> None:
    assert store.release_row() is None


def test_chunks_put_together_are_the_row(store: ModelStore) -> None:
    numbers = np.arange(10, dtype=np.float32)
    publication = store.publish(3, numbers)
    assert read(store, publication.digest) == numbers.tolist()
    assert publication.version == 3
    assert publication.digests == chunk_digests(numbers[chunk] for chunk in PLAN)
    assert publication.digest == digest_of_digests(publication.digests)


def test_the_row_is_served_where_it_lies(store: ModelStore) -> None:
    numbers = row(1)
    digest = published(store, 1, numbers)
    numbers[0] = 9
    assert chunk(store, digest, 1, 0) == [9, 1, 1, 1], "no copy was made"


def test_who_is_reading_gets_the_rest_of_what_it_began(store: ModelStore) -> None:
    numbers = row(1)
    first = published(store, 1, numbers)
    store.chunk(first, 1, 0)
    store.release_row()
    numbers += 1
    second = published(store, 2, numbers)
    assert chunk(store, first, 1, 1) == [1, 1, 1, 1]
    assert read(store, second, reader=2) == [2] * 10


def test_while_a_row_changes_nobody_gets_it(store: ModelStore) -> None:
    digest = published(store, 1, row(1))
    read(store, digest)
    assert store.release_row() is None
    assert store.chunk(digest, 1, 0) is None


def test_an_old_version_goes_when_its_last_reader_is_through(store: ModelStore) -> None:
    numbers = row(1)
    first = published(store, 1, numbers)
    for reader in (1, 2):
        store.chunk(first, reader, 0)
    store.release_row()
    numbers += 1
    published(store, 2, numbers)
    for reader, index in ((1, 1), (1, 2), (2, 1), (2, 2)):
        assert store.chunk(first, reader, index) is not None
    assert store.chunk(first, 3, 0) is None


def test_a_reader_that_stays_away_is_not_waited_for(store: ModelStore, clock: Clock) -> None:
    first = published(store, 1, row(1))
    store.chunk(first, 1, 0)
    clock.now = READER_GRACE + 1
    assert store.release_row() is None


def test_an_unchanged_row_keeps_its_digest_and_its_readers(store: ModelStore) -> None:
    first = published(store, 1, row(1))
    store.chunk(first, 1, 0)
    assert published(store, 2, row(1)) == first
    assert store.chunk(first, 1, 1) is not None
    released = store.release_row()
    assert released is not None
    assert released.version == 2


def test_a_row_that_moves_is_served_from_its_new_place(store: ModelStore) -> None:
    before = row(1)
    digest = published(store, 1, before)
    store.move_row(row(1))
    before += 8
    assert read(store, digest) == [1] * 10


def test_rounded_numbers_are_a_copy_that_no_change_reaches(clock: Clock) -> None:
    plan = ChunkPlan(size=10, width=2, chunk_numbers=4)
    store = ModelStore(plan, "float16", clock=clock)
    numbers = row(1)
    digest = published(store, 1, numbers)
    remaining = store.release_row()
    assert remaining is not None
    assert remaining.version == 1
    numbers += 1
    assert np.frombuffer(store.chunk(digest, 1, 0), np.float16).tolist() == [1, 1, 1, 1]


@pytest.fixture
def large() -> tuple[ChunkPlan, np.ndarray]:
    """A row that has to wait in a file."""
    plan = ChunkPlan(size=LARGE // 4, width=4, chunk_numbers=LARGE // 8)
    return plan, np.arange(LARGE // 4, dtype=np.float32)


def test_a_large_version_waits_in_a_file_for_its_readers(
    large: tuple[ChunkPlan, np.ndarray], tmp_path: Path
) -> None:
    plan, numbers = large
    store = ModelStore(plan, "float32", tmp_path)
    digest = published(store, 1, numbers)
    first = store.chunk(digest, 1, 0)
    store.release_row()
    numbers *= 2
    second = store.chunk(digest, 1, 1)
    assert np.array_equal(np.frombuffer(first + second, np.float32), np.arange(LARGE // 4))


def test_where_there_is_no_room_readers_start_again(
    large: tuple[ChunkPlan, np.ndarray], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan, numbers = large
    store = ModelStore(plan, "float32", tmp_path / "is not there")
    digest = published(store, 1, numbers)
    assert store.chunk(digest, 1, 0) is not None
    assert store.release_row() is None
    assert store.chunk(digest, 1, 1) is None
    assert "must start again" in caplog.text


def test_who_reads_slowly_on_purpose_does_not_fill_the_memory(store: ModelStore) -> None:
    versions = []
    for version in range(1, 10):
        versions.append(published(store, version, row(version)))
        store.chunk(versions[-1], 1, 0)
        store.release_row()
    kept = [digest for digest in versions if store.chunk(digest, 1, 1) is not None]
    assert kept == versions[-MOST_OLDER - 1 :]


def test_who_reads_slowly_on_purpose_is_not_waited_for_beyond_a_time(clock: Clock) -> None:
    many = ChunkPlan(size=400, width=4, chunk_numbers=4)
    store = ModelStore(many, "float32", clock=clock, longest=60.0)
    numbers = np.ones(400, np.float32)
    first = store.publish(1, numbers).digest
    for index in range(7):
        assert store.chunk(first, 1, index) is not None
        clock.now += READER_GRACE - 1
    store.publish(2, 2 * numbers)
    assert store.chunk(first, 1, 7) is None
