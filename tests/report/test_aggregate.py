import math

import numpy as np
import pytest

from federico.errors import RunError
from federico.report.aggregate import aggregate, best_rate
from federico.runs.metric import ACCURACY, AUROC, LOG_LOSS, MACRO_F1, SQUARED_ERROR
from tests.support.results import STORED, entry_of, make_aggregate, make_cell, make_table


def test_mean_deviation_and_paired_difference() -> None:
    cells = []
    for seed, ours, theirs in ((0, 0.9, 0.7), (1, 0.7, 0.8), (2, 0.8, 0.6)):
        cells += [make_cell("federico", ours, seed=seed), make_cell("local", theirs, seed=seed)]

    summary = aggregate(make_table(seeds=(0, 1, 2)), cells)

    federico = entry_of(summary)
    assert federico.mean == pytest.approx(0.8)
    assert federico.sd("seeds") == pytest.approx(0.1)
    assert federico.by_seed == pytest.approx({0: 0.9, 1: 0.7, 2: 0.8})
    assert federico.versus is not None
    assert federico.versus.mean == pytest.approx((0.2 - 0.1 + 0.2) / 3)
    assert (federico.versus.better, federico.versus.runs) == (2, 3)
    assert entry_of(summary, "local").versus is None
    assert summary.unfinished == 0


def test_a_client_counts_by_the_size_of_its_data() -> None:
    summary = aggregate(make_table(), [make_cell("federico", [1.0, 0.0, 0.5])])

    assert entry_of(summary).mean == pytest.approx((8 * 1.0 + 6 * 0.0 + 6 * 0.5) / 20)


def test_only_seeds_that_the_reference_has_too_are_compared() -> None:
    cells = [
        make_cell("federico", 0.9, seed=0),
        make_cell("federico", 0.1, seed=1),
        make_cell("local", 0.5, seed=0),
    ]

    versus = entry_of(aggregate(make_table(), cells)).versus

    assert versus is not None
    assert versus.mean == pytest.approx(0.4)
    assert versus.runs == 1


def test_differences_are_taken_after_equal_rounds_only() -> None:
    cells = [make_cell("federico", 0.5, 0.9), make_cell("local", 0.6)]

    summary = aggregate(make_table(), cells)

    assert entry_of(summary).versus is None
    assert summary.best("", "given") is None, "rows of different rounds are not compared"


def test_two_that_have_diverged_are_equally_bad() -> None:
    plain = {"task": "regression"}
    cells = [
        make_cell(row, 0.0, figures={"r2": [[None, 0.1, 0.1]], "loss": [[None, 2, 3]]}, **plain)
        for row in ("federico", "local")
    ]

    federico = entry_of(aggregate(make_table(), cells))

    assert federico.mean == -math.inf
    assert federico.versus is not None
    assert federico.versus.mean == 0


def test_one_seed_has_no_deviation() -> None:
    assert entry_of(aggregate(make_table(), [make_cell("federico", 0.5)])).sd("seeds") is None


def test_deviation_over_clients_is_that_of_their_means_over_seeds() -> None:
    cells = [
        make_cell("federico", [0.2, 0.4, 0.6], seed=0),
        make_cell("federico", [0.4, 0.6, 0.8], seed=1),
    ]

    federico = entry_of(aggregate(make_table(), cells))

    assert federico.by_client == pytest.approx({"a": 0.3, "b": 0.5, "c": 0.7})
    assert federico.sd("clients") == pytest.approx(0.2)
    assert federico.clients_of_seed is None


def test_different_clients_are_not_averaged_though_they_have_the_same_names() -> None:
    cells = [
        make_cell("federico", [0.2, 0.4, 0.6], seed=3, clients_drawn=True),
        make_cell("federico", [0.9, 0.9, 0.9], seed=4, clients_drawn=True),
    ]

    federico = entry_of(aggregate(make_table(), cells))

    assert federico.clients_of_seed == 3
    assert federico.by_client == pytest.approx({"a": 0.2, "b": 0.4, "c": 0.6})
    # Within each run: clients of different runs are not mixed.
    assert federico.sd("clients") == pytest.approx(0.1)


def test_hospitals_stay_the_same_on_every_seed_though_their_samples_differ() -> None:
    cells = [
        make_cell("federico", 0.2, seed=0, clients_drawn=False),
        make_cell("federico", 0.4, seed=1, clients_drawn=False, train_samples=[5, 4, 1]),
    ]

    federico = entry_of(aggregate(make_table(), cells))

    assert federico.by_client == pytest.approx({"a": 0.3, "b": 0.3, "c": 0.3})


def test_older_results_tell_by_their_data_whether_clients_are_the_same() -> None:
    cells = [
        make_cell("federico", 0.2, seed=0),
        make_cell("federico", 0.4, seed=1, train_samples=[5, 4, 1]),
    ]

    federico = entry_of(aggregate(make_table(), cells))

    assert federico.by_client == pytest.approx({"a": 0.2, "b": 0.2, "c": 0.2})


def test_curves_have_the_rounds_that_every_seed_has_evaluated() -> None:
    cells = [
        make_cell("federico", 0.4, 0.5, rounds=4, evaluated=[2, 4], seed=0),
        make_cell("federico", 0.1, 0.6, 0.7, rounds=4, evaluated=[1, 2, 4], seed=1),
    ]

    curve = entry_of(aggregate(make_table(rounds=4), cells)).curve

    assert curve.rounds == [2, 4]
    assert curve.mean == pytest.approx([0.5, 0.6])
    assert curve.sd == pytest.approx([math.sqrt(0.02), math.sqrt(0.02)])


def test_bytes_and_seconds_add_up_over_rounds_and_are_those_of_one_run() -> None:
    cells = [
        make_cell("federico", 0.4, 0.5, bytes_by_round=[0, 66], seed=0),
        make_cell("federico", 0.4, 0.5, bytes_by_round=[66, 66], seed=1),
    ]

    federico = entry_of(aggregate(make_table(rounds=2), cells))

    assert federico.bytes_moved == [33, 99]
    assert federico.processor_seconds == [2, 4]
    assert federico.wall_seconds == 1.5


def test_seconds_that_were_not_written_down_are_not_made_up() -> None:
    cell = make_cell("federico", 0.4, 0.5, processor_seconds_by_round=[3.0])

    assert entry_of(aggregate(make_table(rounds=2), [cell])).processor_seconds == [3, 3]


def test_trust_is_the_mean_of_the_seeds_that_have_posteriors() -> None:
    cells = [
        make_cell("federico", 0.5, on_own_distribution=0.5, effective_collaborators=2.0, seed=0),
        make_cell("federico", 0.5, on_own_distribution=1.0, effective_collaborators=3.0, seed=1),
        make_cell("local", 0.5),
    ]

    summary = aggregate(make_table(), cells)

    assert entry_of(summary).on_own_distribution == 0.75
    assert entry_of(summary).effective_collaborators == 2.5
    assert entry_of(summary, "local").on_own_distribution is None


def unit(r2: list[float | None]) -> list[float | None]:
    """Mean squared errors on targets of variance 1."""
    return [None if value is None else 1 - value for value in r2]


def test_regression_is_judged_by_r2() -> None:
    r2 = {"federico": [0.2, 0.3, 0.4], "local": [0.1, 0.2, 0.3], "fedavg": [0.1, None, 0.1]}
    cells = [
        make_cell(row, 0.0, task="regression", figures={"r2": [values], "loss": [unit(values)]})
        for row, values in r2.items()
    ]

    summary = aggregate(make_table(*r2), cells)

    federico = entry_of(summary)
    assert federico.mean == pytest.approx((8 * 0.2 + 6 * 0.3 + 6 * 0.4) / 20)
    assert federico.versus is not None
    assert federico.versus.mean == pytest.approx(0.1)
    assert federico.versus.better == 1
    assert summary.best("", "given") is federico
    assert entry_of(summary, "fedavg").mean == -math.inf


def test_a_client_whose_test_data_defines_no_figure_is_left_out() -> None:
    figures = {"r2": [[0.5, None, 0.1]], "loss": [[0.5, 1.0, 0.9]]}

    federico = entry_of(
        aggregate(make_table(), [make_cell("federico", 0.0, task="regression", figures=figures)])
    )

    assert federico.mean == pytest.approx((8 * 0.5 + 6 * 0.1) / 14)
    assert federico.by_client == {"a": 0.5, "c": 0.1}


def test_clients_that_would_do_better_with_the_mean_are_counted() -> None:
    # The last two of the first run: one is worse than the mean, and one has diverged.
    first = {"r2": [[0.5, 0.2, None]], "loss": [[1.0, 1.0, None]], "skill": [[0.5, -0.1, None]]}
    second = {"r2": [[0.5, 0.2, 0.1]], "loss": [[1.0, 1.0, 1.0]], "skill": [[0.5, 0.0, None]]}
    cells = [
        make_cell("federico", 0.0, seed=seed, task="regression", figures=figures)
        for seed, figures in enumerate((first, second))
    ]

    summary = aggregate(make_table(), cells)

    assert entry_of(summary).worse_than_mean == 1.0
    assert entry_of(aggregate(make_table(), [make_cell("federico", 0.5)])).worse_than_mean is None


def test_other_metrics_are_means_over_clients_and_over_the_seeds_that_know_them() -> None:
    known = {"accuracy": [[0.5] * 3], "loss": [[1.0] * 3], "auroc": [[0.9, None, 0.7]]}
    cells = [
        make_cell("federico", 0.5, seed=0, figures=known),
        make_cell("federico", 0.5, seed=1),
    ]

    federico = entry_of(aggregate(make_table(), cells))

    assert federico.other_figure(AUROC) == pytest.approx((8 * 0.9 + 6 * 0.7) / 14)
    assert federico.other_figure(LOG_LOSS) == 1.0
    assert federico.other_figure(MACRO_F1) is None


def test_rows_follow_the_table_and_others_are_left_out() -> None:
    cells = [make_cell(row, 0.5) for row in ("fedavg", "mine", "local", "federico")]

    summary = aggregate(make_table("mine", "federico", "local"), cells)

    found = [entry.row.name for entry in summary.column("", "given")]
    assert found == ["mine", "federico", "local"]


def test_runs_of_the_rounds_asked_for_count_before_longer_ones() -> None:
    cells = [make_cell("federico", 0.5), make_cell("federico", 0.5, 0.6, 0.7)]

    assert entry_of(aggregate(make_table(rounds=1), cells)).mean == pytest.approx(0.5)
    assert entry_of(aggregate(make_table(rounds=9), cells)).mean == pytest.approx(0.7)


def test_runs_with_other_settings_than_the_last_do_not_count() -> None:
    cells = [
        make_cell("federico", 0.2, seed=0, settings="before"),
        make_cell("federico", 0.4, seed=1, settings="before"),
        make_cell("federico", 0.9, seed=0, settings="now"),
    ]

    assert entry_of(aggregate(make_table(), cells)).by_seed == {0: pytest.approx(0.9)}


def test_unfinished_cells_are_pending_and_shown_where_nothing_is_finished() -> None:
    finished = make_cell("local", 0.1, 0.2, 0.3)
    going_on = [
        make_cell("federico", 0.3, 0.4, seed=0),
        make_cell("federico", 0.5, seed=1),
        make_cell("local", 0.9, seed=1),
    ]

    summary = aggregate(make_table(rounds=3, seeds=(0, 1)), [finished], unfinished=going_on)

    federico = entry_of(summary)
    assert not federico.finished
    assert federico.rounds == 1, "the last round that both seeds have"
    assert federico.mean == pytest.approx(0.4)
    assert entry_of(summary, "local").by_seed == {0: pytest.approx(0.3)}
    pending = [(cell.row.title, cell.seed, cell.round_index) for cell in summary.pending]
    assert pending == [("FedeRiCo", 0, 2), ("FedeRiCo", 1, 1), ("Local", 1, 1)]
    assert summary.unfinished == 3


def test_a_run_that_has_only_begun_has_no_best() -> None:
    begun = make_cell("federico", rounds=0)

    summary = aggregate(make_table(), [], unfinished=[begun])

    assert summary.entries == []
    assert summary.best("", "given") is None


def test_a_table_without_any_results_is_refused() -> None:
    with pytest.raises(RunError, match="made-up: nothing is finished yet"):
        aggregate(make_table(), [])


def test_seeds_that_share_out_the_data_anew_are_told_apart() -> None:
    one = make_cell("federico", 0.5, seed=0)
    other = make_cell("federico", 0.5, seed=1, train_samples=[1, 3, 6])

    alike = aggregate(make_table(), [one]).population
    apart = aggregate(make_table(), [one, other]).population

    assert alike is not None
    assert alike.same_on_every_seed
    assert apart is not None
    assert not apart.same_on_every_seed
    assert apart.train_samples == [6, 3, 1]


class TestStoredAsMeans:
    table = make_table(rounds=2, seeds=(0, 1), stored=STORED)

    def test_every_stored_number_comes_out_again(self) -> None:
        stored = make_aggregate()

        federico = entry_of(aggregate(self.table, [], [stored]))

        assert federico.stored_as_mean
        assert federico.by_seed == {0: 0.6, 1: 0.8}
        assert federico.by_client == stored.by_client
        assert federico.curve.rounds == [1, 2]
        assert federico.curve.mean == pytest.approx(stored.curve_mean)
        assert federico.curve.sd == pytest.approx(stored.curve_sd, abs=1e-6)
        assert federico.bytes_moved == stored.bytes_moved
        assert federico.processor_seconds == stored.processor_seconds
        assert federico.on_own_distribution == 0.9
        assert federico.effective_collaborators == 2.5

    def test_bands_survive_seeds_that_end_alike(self) -> None:
        stored = make_aggregate(by_seed={0: 0.7, 1: 0.7, 2: 0.7}, curve_sd=[0.2, 0.0])

        curve = entry_of(aggregate(self.table, [], [stored])).curve

        assert curve.mean == pytest.approx([0.5, 0.7])
        assert curve.sd == pytest.approx([0.2, 0.0])

    def test_diverged_seeds_leave_no_band(self) -> None:
        stored = make_aggregate(
            by_seed={0: math.inf, 1: 0.5}, curve_mean=[0.5, math.inf], curve_sd=[0.1, 0.0]
        )

        federico = entry_of(aggregate(self.table, [], [stored]))

        assert federico.mean == math.inf
        assert federico.curve.sd == pytest.approx([0.1, 0.0])

    def test_a_new_seed_is_added_as_if_all_runs_had_been_read_at_once(self) -> None:
        new = make_cell("federico", 0.8, 1.0, seed=2)

        federico = entry_of(aggregate(self.table, [new], [make_aggregate()]))

        assert federico.by_seed == pytest.approx({0: 0.6, 1: 0.8, 2: 1.0})
        first_round = [0.5 - 0.2 / math.sqrt(2), 0.5 + 0.2 / math.sqrt(2), 0.8]
        assert federico.curve.mean[0] == pytest.approx(np.mean(first_round))
        assert federico.curve.sd[0] == pytest.approx(np.std(first_round, ddof=1))
        assert federico.stored_as_mean

    def test_what_is_measured_again_replaces_what_was_stored(self) -> None:
        again = [make_cell("federico", 0.1, 0.3, seed=seed) for seed in (0, 1)]

        federico = entry_of(aggregate(self.table, again, [make_aggregate()]))

        assert federico.by_seed == pytest.approx({0: 0.3, 1: 0.3})
        assert not federico.stored_as_mean

    def test_longer_stored_runs_stay_until_runs_as_long_are_there(self) -> None:
        shorter = make_cell("federico", 0.1, seed=0)

        federico = entry_of(aggregate(self.table, [shorter], [make_aggregate()]))

        assert federico.rounds == 2
        assert federico.by_seed == {0: 0.6, 1: 0.8}


def test_the_best_rate_is_the_one_with_the_best_validation_score() -> None:
    cells = [
        make_cell("federico", score, rate_kind="tuning", rate=rate, seed=seed)
        for rate, score in ((0.1, 0.5), (0.01, 0.7), (0.001, 0.6))
        for seed in (0, 1)
    ]
    stored = [
        make_aggregate("local", rate_kind="tuning", rate=rate, rounds=1, by_seed={0: score},
                       curve_rounds=[1], curve_mean=[score], curve_sd=[0.0])
        for rate, score in ((0.1, 0.2), (0.01, 0.1))
    ]  # fmt: skip

    federico, local = aggregate(make_table(), cells, stored).tuned

    assert federico.scores == pytest.approx({0.1: 0.5, 0.01: 0.7, 0.001: 0.6})
    assert federico.rate == 0.01
    assert federico.rounds == 1
    assert (local.scores, local.rate) == ({0.1: 0.2, 0.01: 0.1}, 0.1)


def test_of_equal_rates_the_first_is_best_and_diverged_is_worst() -> None:
    assert best_rate({0.1: 0.5, 0.01: 0.5}, ACCURACY) == 0.1
    assert best_rate({0.1: math.inf, 0.01: 9.0}, SQUARED_ERROR) == 0.01
