import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from federico.rng import key, stream

GOLDEN = [11, 71, 92, 21]


def test_a_stream_stays_the_same_from_version_to_version() -> None:
    assert stream(7, "batches", "c0", 3).integers(100, size=4).tolist() == GOLDEN


def test_streams_differ_by_seed_purpose_and_name() -> None:
    keys = {
        key(0, "a", "x"),
        key(1, "a", "x"),
        key(0, "b", "x"),
        key(0, "a", "y"),
        key(0, "a", "x", 1),
        key(0, "a"),
    }
    assert len(keys) == 6


@given(
    st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_moving_letters_between_names_makes_another_stream(names: list[str], seed: int) -> None:
    joined = "".join(names)
    assert (key(seed, *names) == key(seed, joined)) == (len(names) == 1)


def test_a_stream_does_not_depend_on_what_was_drawn_before() -> None:
    before = stream(0, "sample", "c1", 1).random(3)
    stream(0, "sample", "c2", 1).random(100)
    np.testing.assert_array_equal(stream(0, "sample", "c1", 1).random(3), before)
