import math
from dataclasses import replace

import pytest

from federico.runs.comparison import (
    Comparison,
    Comparisons,
    describe_comparison,
    share_in_words,
    sureness_in_short,
    sureness_in_words,
    trusts_only_itself,
)

BOTH = Comparisons(
    alone={"accuracy": [0.76, 0.5], "loss": [1.0, 2.0]},
    together={"accuracy": [0.832, 0.25], "loss": [0.5, None]},
    used={"accuracy": [0.83, 0.5], "loss": [0.5, 2.0]},
    together_share=[0.86, 0.03],
)


def test_each_client_has_its_own_figures() -> None:
    assert BOTH.of(1) == Comparison(
        alone={"accuracy": 0.5, "loss": 2.0},
        together={"accuracy": 0.25, "loss": None},
        used={"accuracy": 0.5, "loss": 2.0},
        together_share=0.03,
    )


def test_it_is_said_in_plain_words() -> None:
    said = "alone 76.0 %, with collaborators 83.2 %: together counts 86 %"
    assert describe_comparison(BOTH.of(0)) == said
    assert repr(BOTH.of(0)) == f"Comparison(accuracy: {said}, used 83.0 %)"


def test_nobody_is_called_a_collaborator_who_is_not_trusted() -> None:
    said = describe_comparison(BOTH.of(0), only_itself=True)
    assert said == (
        "alone 76.0 %, with the model it shares 83.2 % (it trusts no other's): that counts 86 %"
    )


@pytest.mark.parametrize(
    ("posterior", "only_itself"),
    [
        ({"a": 1.0}, True),
        ({"a": 0.3, "a (alone)": 0.7}, True),
        ({"a": 0.999, "b": 0.001}, True),
        ({"a": 0.009, "a (alone)": 0.99, "b": 0.001}, False),
        ({"a": 0.9, "b": 0.1}, False),
    ],
)
def test_whether_a_client_trusts_only_itself(
    posterior: dict[str, float], only_itself: bool
) -> None:
    assert trusts_only_itself(posterior, "a") is only_itself


@pytest.mark.parametrize(
    ("share", "together", "explained"),
    [(0.83, 0.62, True), (0.83, 0.71, False), (0.17, 0.75, True), (0.17, 0.62, False)],
)
def test_a_share_that_the_test_data_contradicts_is_explained(
    share: float, together: float, explained: bool
) -> None:
    compared = Comparison(
        alone={"accuracy": 0.71, "loss": 1.0},
        together={"accuracy": together, "loss": 1.0},
        used={"accuracy": 0.7, "loss": 1.0},
        together_share=share,
    )
    assert ("held out of training" in describe_comparison(compared)) is explained
    assert "held out of training" not in describe_comparison(compared, explained=False)


def test_a_value_is_said_without_a_unit_and_what_has_diverged_as_such() -> None:
    regression = Comparison(
        alone={"r2": 0.41, "loss": 1.0},
        together={"r2": None, "loss": None},
        used={"r2": 0.4, "loss": 1.0},
        together_share=0.0,
    )
    assert (
        describe_comparison(regression)
        == "alone 0.410, with collaborators diverged: together counts 0 %"
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, "together (100 %)"),
        (0.86, "mostly together (86 %)"),
        (0.5, "both (50 %)"),
        (0.03, "mostly alone (3 %)"),
        (0.0, "alone (0 %)"),
    ],
)
def test_a_share_says_which_is_used_and_how_far(share: float, words: str) -> None:
    assert share_in_words(share) == words


def test_words_and_percent_never_contradict_each_other() -> None:
    for percent in range(101):
        words = share_in_words(percent / 100)
        assert ("together" in words) == (percent >= 60)
        assert ("alone" in words) == (percent <= 40)
        assert math.isclose(float(words.split("(")[1].split()[0]), percent)


@pytest.mark.parametrize(
    ("chance", "words", "short"),
    [
        (1.0, "over 99 % sure that together is better", "over 99 %, together"),
        (0.918, "92 % sure that together is better", "92 %, together"),
        (0.8, "80 % sure that together is better", "80 %, together"),
        (0.63, "about even which is better (63 % together)", "about even (63 %)"),
        (0.21, "about even which is better (21 % together)", "about even (21 %)"),
        (0.07, "93 % sure that alone is better", "93 %, alone"),
        (0.0, "over 99 % sure that alone is better", "over 99 %, alone"),
    ],
)
def test_a_chance_says_how_sure_it_is_which_is_better(
    chance: float, words: str, short: str
) -> None:
    assert sureness_in_words(chance) == words
    assert sureness_in_short(chance) == short


def test_how_sure_it_is_stands_beside_the_share_where_it_is_known() -> None:
    compared = Comparison(
        alone={"accuracy": 0.76, "loss": 1.0},
        together={"accuracy": 0.832, "loss": 1.0},
        used={"accuracy": 0.83, "loss": 1.0},
        together_share=0.86,
        together_chance=0.92,
    )
    assert describe_comparison(compared) == (
        "alone 76.0 %, with collaborators 83.2 %: together counts 86 %, "
        "92 % sure that together is better"
    )
    unknown = replace(compared, together_chance=None)
    assert "sure" not in describe_comparison(unknown)
    assert sureness_in_short(unknown.together_chance) == "-"
