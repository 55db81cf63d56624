import math

import pytest

from federico.report.old.metric import ACCURACY, SQUARED_ERROR, metric_of
from federico.runs.layout import Description
from federico.runs.records import Record


def record(accuracy: list[float] | None = None, loss: list[float | None] | None = None) -> Record:
    return Record(
        1,
        accuracy,
        loss,
        neighbors=[],
        posterior=[],
        sent=[],
        received=[],
        moved=0,
        evaluation_sent=[],
        evaluation_received=[],
        evaluation_moved=0,
    )


def test_accuracy_is_weighted_by_the_size_of_each_clients_whole_data(
    description: Description,
) -> None:
    # 8, 6 and 6 samples: (8 * 1 + 6 * 0.5 + 6 * 0) / 20
    assert ACCURACY.mean(record(accuracy=[1.0, 0.5, 0.0]), description) == pytest.approx(0.55)


def test_a_round_that_was_not_evaluated_has_no_figure(description: Description) -> None:
    assert ACCURACY.mean(record(), description) is None
    assert ACCURACY.per_client(record()) == []


def test_a_loss_that_is_not_finite_is_infinitely_bad(description: Description) -> None:
    diverged = record(loss=[0.5, None, 0.5])
    assert SQUARED_ERROR.mean(diverged, description) == math.inf
    assert SQUARED_ERROR.per_client(diverged) == [0.5, math.inf, 0.5]
    assert math.isnan(SQUARED_ERROR.drawn(math.inf))
    assert SQUARED_ERROR.text(math.inf) == "diverged"


def test_figures_are_written_with_their_unit() -> None:
    assert ACCURACY.text(0.8075) == "80.8 %"
    assert ACCURACY.spread(0.0123) == " ± 1.2"
    assert ACCURACY.spread(None) == ""
    assert ACCURACY.distance(-0.069) == "6.9 points"
    assert SQUARED_ERROR.text(0.01234) == "0.0123"


@pytest.mark.parametrize(
    ("difference", "text"), [(0.069, "+6.9"), (-0.069, "\N{MINUS SIGN}6.9"), (0.0, "0.0")]
)
def test_a_difference_has_a_sign_unless_it_is_none(difference: float, text: str) -> None:
    assert ACCURACY.signed(difference) == text


def test_an_error_is_better_when_it_is_lower() -> None:
    assert metric_of("regression").gain(-0.1) > 0 > metric_of("classification").gain(-0.1)
