import pytest

from federico.network.wire.schema import ChunkPlan, ModelSchema

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
    chunk_plan = ChunkPlan(size, width=4, chunk=100)
    assert chunk_plan.chunks == chunks
    numbers = list(range(size))
    assert [n for k in range(chunks) for n in numbers[chunk_plan.part(k)]] == numbers
    assert sum(chunk_plan.length(k) for k in range(chunks)) == chunk_plan.bytes == 4 * size
