"""Whose clock is wrong, by what a site hears of the others'."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.site.clocks import TOLERATED, compare_clocks, describe_clock

DAY = 86400.0
RIGHT = st.floats(-TOLERATED / 4, TOLERATED / 4)
WRONG = st.floats(TOLERATED * 2, 10 * DAY) | st.floats(-10 * DAY, -TOLERATED * 2)


@given(right=st.lists(RIGHT, min_size=3, max_size=6), wrong=WRONG)
def test_one_wrong_clock_is_named_and_no_other(right: list[float], wrong: float) -> None:
    ahead = {str(place): seconds for place, seconds in enumerate(right)}
    clocks = compare_clocks({**ahead, "late": wrong})
    assert clocks.own == 0
    assert clocks.others == {"late": wrong}


@given(right=st.lists(RIGHT, min_size=3, max_size=6), wrong=WRONG)
def test_a_site_whose_own_clock_is_wrong_names_nobody_else(
    right: list[float], wrong: float
) -> None:
    clocks = compare_clocks({str(place): each - wrong for place, each in enumerate(right)})
    assert clocks.own == pytest.approx(wrong, abs=TOLERATED)
    assert clocks.others == {}


def test_of_two_sites_each_names_the_other() -> None:
    assert compare_clocks({"other": DAY}).others == {"other": DAY}
    assert compare_clocks({"other": -DAY}).others == {"other": -DAY}


def test_where_half_of_the_others_agree_with_a_site_it_believes_itself() -> None:
    assert compare_clocks({"a": 1.0, "b": DAY}).own == 0


def test_nobody_is_named_as_long_as_nobody_has_answered() -> None:
    assert compare_clocks({}) == compare_clocks({"a": 3.0, "b": -2.0})


@pytest.mark.parametrize(
    ("ahead", "said"),
    [(DAY, "24.0 h ahead"), (-5400.0, "1.5 h behind"), (-180.0, "3 min behind")],
)
def test_a_difference_is_said_in_words(ahead: float, said: str) -> None:
    assert describe_clock(ahead) == said
