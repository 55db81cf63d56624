import pytest

from federico.wire.schema import Layout, Schema

SHAPES = {"weight": (3, 4), "bias": (3,), "scale": ()}


def test_a_schema_counts_the_numbers_of_its_row() -> None:
    assert Schema.of(SHAPES, "float32").size == 16


def test_what_is_sent_is_what_is_computed_with_unless_said() -> None:
    assert Schema.of(SHAPES, "float32").wire == "float32"
    assert Schema.of(SHAPES, "float32", "float16").wire == "float16"


@pytest.mark.parametrize(
    "other",
    [
        Schema.of({"weight": (4, 3), "bias": (3,), "scale": ()}, "float32"),
        Schema.of({"bias": (3,), "weight": (3, 4), "scale": ()}, "float32"),
        Schema.of({"weights": (3, 4), "bias": (3,), "scale": ()}, "float32"),
        Schema.of(SHAPES, "float64"),
        Schema.of(SHAPES, "float32", "bfloat16"),
    ],
    ids=["shape", "order", "name", "dtype", "wire"],
)
def test_any_difference_is_another_hash(other: Schema) -> None:
    same = Schema.of(dict(SHAPES), "float32")
    assert same.hash == Schema.of(SHAPES, "float32").hash
    assert other.hash != same.hash


@pytest.mark.parametrize(("size", "chunks"), [(1, 1), (99, 1), (100, 1), (101, 2), (250, 3)])
def test_chunks_are_the_whole_row_once(size: int, chunks: int) -> None:
    layout = Layout(size, width=4, chunk=100)
    assert layout.chunks == chunks
    numbers = list(range(size))
    assert [n for k in range(chunks) for n in numbers[layout.part(k)]] == numbers
    assert sum(layout.length(k) for k in range(chunks)) == layout.bytes == 4 * size
