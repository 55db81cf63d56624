import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.report import gains, summary_data
from federico.report.aggregate import aggregate
from federico.report.entry import Difference
from federico.report.gains import ClientGain, ClientTestSet, GainsOfClients
from federico.report.table_summary import Summary
from federico.runs.metric import ACCURACY, R2, SQUARED_ERROR
from federico.runs.results import CellResult
from tests.support.results import entry_of, make_aggregate, make_cell, make_table

numbers = st.floats(-1, 1)


def two_runs() -> Summary:
    """Three clients with 100, 100 and 25 test samples, each 80 % right alone."""
    tested = {"test_samples": [100, 100, 25]}
    cells = [
        make_cell("federico", [0.90, 0.70, 0.80], **tested),
        make_cell("federico", [0.85, 0.75, 0.88], seed=1, **tested),
        make_cell("local", 0.8, **tested),
        make_cell("local", 0.8, seed=1, **tested),
    ]
    return aggregate(make_table(seeds=(0, 1)), cells)


def versus(summary: Summary) -> Difference:
    found = entry_of(summary).versus
    assert found is not None
    return found


def test_gains_are_counted_over_clients_and_runs() -> None:
    # Gains of 10, -10 and 0 points in the first run, 5, -5 and 8 in the second.
    clients = versus(two_runs()).clients
    assert clients is not None
    assert clients.better == pytest.approx(3 / 6)
    assert clients.not_worse == pytest.approx(4 / 6)
    assert clients.worst == pytest.approx((-0.10 - 0.05) / 2)
    assert clients.spread == pytest.approx((0.1 + 0.0680686) / 2)


def test_a_client_is_clearly_worse_beyond_two_standard_errors_of_its_test_set() -> None:
    # Of 100 samples 80 are right: sqrt(82/104 * 22/104 / 104) = 0.040, so 10 points are clear and
    # 5 are not.
    assert gains.standard_error(0.8, 100, ACCURACY) == pytest.approx(
        math.sqrt(82 / 104 * 22 / 104 / 104)
    )
    clients = versus(two_runs()).clients
    assert clients is not None
    assert clients.clearly_worse == pytest.approx(1 / 6)


def test_one_who_is_always_right_alone_may_still_be_wrong_by_chance() -> None:
    error = gains.standard_error(1.0, 50, ACCURACY)
    assert error == pytest.approx(math.sqrt(52 / 54 * 2 / 54 / 54))


def test_errors_of_a_regression_are_uncertain_by_the_square_root_of_two_over_n() -> None:
    assert gains.standard_error(3.0, 8, SQUARED_ERROR) == pytest.approx(1.5)
    assert gains.standard_error(0.2, 8, R2) == pytest.approx(0.4)


def test_a_lower_error_is_a_gain() -> None:
    (client,) = gains.gains_of_run({"a": 1.0}, {"a": 3.0}, {"a": ClientTestSet(8)}, SQUARED_ERROR)
    assert client == ClientGain("a", 1.0, 3.0, 2.0, pytest.approx(1.5))
    assert not client.is_clearly_worse


def test_two_that_have_diverged_are_as_well_off() -> None:
    (client,) = gains.gains_of_run(
        {"a": math.inf}, {"a": math.inf}, {"a": ClientTestSet(8)}, SQUARED_ERROR
    )
    assert client.gain == 0


def test_only_clients_that_both_have_are_compared() -> None:
    found = gains.gains_of_run(
        {"a": 0.5, "b": 0.5}, {"b": 0.4, "c": 1.0}, {"b": ClientTestSet(10)}, ACCURACY
    )
    assert [client.gain for client in found] == [pytest.approx(0.1)]


def test_the_interval_is_students() -> None:
    # Mean 0.02, deviation 0.01, and 4.3027 is the quantile of t with two degrees of freedom.
    half = 4.30265 * 0.01 / math.sqrt(3)
    interval = gains.mean_interval([0.01, 0.02, 0.03])
    assert interval == pytest.approx((0.02 - half, 0.02 + half), rel=1e-5)


def test_three_runs_of_one_sign_prove_little() -> None:
    # Of the 8 ways to give signs to three ranks, two are as extreme.
    assert gains.paired_p_value([0.01, 0.02, 0.03]) == pytest.approx(2 / 8)
    assert gains.paired_p_value([0.0, 0.0]) == 1.0


@pytest.mark.parametrize("values", [[0.1], [0.1, math.inf]])
def test_a_single_run_and_a_diverged_one_have_no_interval(values: list[float]) -> None:
    assert gains.mean_interval(values) is None
    assert gains.paired_p_value(values) is None


@given(st.lists(numbers, min_size=2, max_size=12))
def test_the_interval_holds_the_mean_and_turns_with_the_signs(values: list[float]) -> None:
    interval = gains.mean_interval(values)
    assert interval is not None
    low, high = interval
    mean = sum(values) / len(values)
    assert low <= mean + 1e-12
    assert mean <= high + 1e-12
    turned = gains.mean_interval([-value for value in values])
    assert turned == pytest.approx((-high, -low), abs=1e-12)


@given(st.lists(st.lists(numbers, min_size=1, max_size=5), min_size=1, max_size=4))
def test_shares_are_in_order(runs: list[list[float]]) -> None:
    by_seed = {}
    for seed, run in enumerate(runs):
        by_seed[seed] = tuple(ClientGain("a", gain, 0.0, gain, 0.1) for gain in run)
    clients = GainsOfClients(by_seed)
    assert 0 <= clients.better <= clients.not_worse <= 1
    assert clients.clearly_worse <= 1 - clients.not_worse + 1e-12
    largest = max(gain for run in runs for gain in run)
    assert clients.worst <= largest + 1e-12 * abs(largest)  # a mean may be rounded up


def test_the_difference_of_rows_says_how_sure_it_is() -> None:
    found = versus(two_runs())
    assert found.interval is not None
    low, high = found.interval
    assert low < found.mean < high
    assert found.runs == 2
    assert found.p_value == pytest.approx(0.5)
    assert not found.is_clear


def test_what_was_stored_as_a_mean_is_not_compared_client_by_client() -> None:
    cells = [make_cell("local", 0.5, 0.5), make_cell("local", 0.5, 0.5, seed=1)]
    found = versus(aggregate(make_table(rounds=2, seeds=(0, 1)), cells, [make_aggregate()]))
    assert found.clients is None
    assert found.interval is not None


def test_every_gain_has_a_line_for_programs() -> None:
    lines = summary_data.gains_as_csv(two_runs()).splitlines()
    assert lines[0].startswith("row,column,rate_kind,learning_rate,seed,client,figure,reference")
    assert len(lines) == 1 + 2 * 3
    row, *_, clearly_worse = lines[2].split(",")
    assert lines[2].startswith("federico,,given,0.01,0,b,0.7,0.8,-0.1")
    assert (row, clearly_worse) == ("federico", "1")


def test_gains_in_r2_are_shares_of_the_variance_of_all_clients() -> None:
    # Test targets with variances 1, 1 and 4, and squared errors of 0.5, 0.9 and 3 against 1 alone
    # each of the variance; clients of 8, 6 and 6 samples.
    def cell(row: str, *errors: float) -> CellResult:
        explained = [
            1 - error / variance for error, variance in zip(errors, (1, 1, 4), strict=True)
        ]
        figures = {"r2": [explained], "loss": [list(errors)]}
        return make_cell(row, 0.0, task="regression", figures=figures)

    summary = aggregate(make_table(), [cell("federico", 0.5, 0.9, 3.0), cell("local", 1, 1, 4)])

    found = versus(summary)
    assert found.clients is not None
    (run,) = found.clients.by_seed.values()
    of_all = (8 * 1 + 6 * 1 + 6 * 4) / 20
    gains_of_all = [0.5 / of_all, 0.1 / of_all, 1.0 / of_all]
    assert [client.gain for client in run] == pytest.approx(gains_of_all)
    weighted = (8 * gains_of_all[0] + 6 * gains_of_all[1] + 6 * gains_of_all[2]) / 20
    assert found.mean == pytest.approx(weighted)
    assert run[0].standard_error == pytest.approx(math.sqrt(2 / 2) / of_all)
