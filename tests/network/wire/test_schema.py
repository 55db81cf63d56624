import pytest

from federico.errors import ConfigError
from federico.network.wire.messages import DIGEST_BYTES, HEADER_BYTES, LARGEST_MESSAGE
from federico.network.wire.schema import MOST_CHUNKS, ChunkPlan, ModelSchema
from federico.network.wire.signing import LARGEST_CERTIFICATE, SIGNATURE_BYTES

SHAPES = {"weight": (3, 4), "bias": (3,), "scale": ()}


def test_a_schema_counts_the_numbers_of_its_row() -> None:
    assert ModelSchema.of(SHAPES, "float32").size == 16


def test_what_is_sent_is_what_is_computed_with_unless_said() -> None:
    assert ModelSchema.of(SHAPES, "float32").wire == "float32"
    assert ModelSchema.of(SHAPES, "float32", "float16").wire == "float16"


@pytest.mark.parametrize(
    "other",
    [
        ModelSchema.of({"weight": (4, 3), "bias": (3,), "scale": ()}, "float32"),
        ModelSchema.of({"bias": (3,), "weight": (3, 4), "scale": ()}, "float32"),
        ModelSchema.of({"weights": (3, 4), "bias": (3,), "scale": ()}, "float32"),
        ModelSchema.of(SHAPES, "float64"),
        ModelSchema.of(SHAPES, "float32", "bfloat16"),
    ],
    ids=["shape", "order", "name", "dtype", "wire"],
)
def test_any_difference_is_another_hash(other: ModelSchema) -> None:
    same = ModelSchema.of(dict(SHAPES), "float32")
    assert same.hash == ModelSchema.of(SHAPES, "float32").hash
    assert other.hash != same.hash


@pytest.mark.parametrize(("size", "chunks"), [(1, 1), (99, 1), (100, 1), (101, 2), (250, 3)])
def test_chunks_are_the_whole_row_once(size: int, chunks: int) -> None:
    plan = ChunkPlan(size, width=4, chunk_numbers=100)
    assert plan.chunks == chunks
    numbers = list(range(size))
    assert [n for chunk in plan for n in numbers[chunk]] == numbers
    assert sum(plan.chunk_bytes(k) for k in range(chunks)) == plan.bytes == 4 * size


@pytest.mark.parametrize(("wire", "numbers"), [("float32", 256), ("float16", 512)])
def test_a_chunk_has_as_many_numbers_as_fit(wire: str, numbers: int) -> None:
    schema = ModelSchema.of({"weight": (10_000,)}, "float32", wire)
    assert ChunkPlan.of(schema, 1024).chunk_numbers == numbers


def test_more_chunks_than_one_message_can_announce_are_refused() -> None:
    """The smallest size that works is named, and does work."""
    schema = ModelSchema.of({"weight": (50_000_000,)}, "float32")
    with pytest.raises(ConfigError) as refused:
        ChunkPlan.of(schema, 1024)
    text = str(refused.value)
    assert "limits.chunk_bytes = 1024" in text
    assert "195,313 chunks" in text
    smallest = int(text.split()[-3])
    assert ChunkPlan.of(schema, smallest).chunks <= MOST_CHUNKS
    with pytest.raises(ConfigError):
        ChunkPlan.of(schema, smallest - 4)


def test_the_largest_announcement_is_a_message_that_peers_take() -> None:
    largest = HEADER_BYTES + MOST_CHUNKS * DIGEST_BYTES + LARGEST_CERTIFICATE + SIGNATURE_BYTES
    longest_key = 4 * 65
    assert largest + longest_key < LARGEST_MESSAGE
