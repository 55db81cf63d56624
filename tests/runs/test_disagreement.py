import numpy as np
import pytest

from federico.runs.disagreement import Disagreement


def answers(*labels: tuple[int, ...]) -> np.ndarray:
    """A row for each sample, with the label that each model gives it."""
    return np.eye(3)[np.array(labels)]


def test_the_share_of_samples_with_another_label_than_the_own_model_gives() -> None:
    watch = Disagreement(["south", "north", "west"], ["north (alone)", "north"], "classification")
    watch.add(answers((0, 0, 1), (1, 1, 1)))
    watch.add(answers((2, 0, 1), (2, 2, 0)))
    assert watch.compared_with == "north"
    assert watch.by_owner == {"west": 0.75, "south": 0.25}
    assert list(watch.by_owner) == ["west", "south"]


def test_the_model_trained_alone_is_what_others_are_compared_with_where_there_is_one() -> None:
    owners = ["north", "south", "north (alone)"]
    watch = Disagreement(owners, ["north (alone)", "north"], "classification")
    watch.add(answers((0, 1, 1), (0, 1, 0)))
    assert watch.by_owner == {"south": 0.5}


def test_values_are_compared_by_their_distance() -> None:
    watch = Disagreement(["north", "south"], ["north"], "regression")
    watch.add(np.array([[[1.0], [3.0]], [[2.0], [1.0]]]))
    assert watch.by_owner == {"south": 1.5}


def test_samples_without_an_answer_of_both_are_left_out() -> None:
    watch = Disagreement(["north", "south"], ["north"], "classification")
    seen = answers((0, 1), (0, 0))
    seen[0, 1, 0] = np.nan
    watch.add(seen)
    assert watch.by_owner == {"south": 0.0}


@pytest.mark.parametrize("owners", [["south", "west"], ["north"]])
def test_nothing_is_said_without_two_to_compare(owners: list[str]) -> None:
    watch = Disagreement(owners, ["north"], "classification")
    watch.add(answers(*[(0,) * len(owners)]))
    assert watch.by_owner == {}
