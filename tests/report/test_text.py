from dataclasses import replace
from typing import Any

import pytest

from federico.report import text
from federico.report.aggregate import aggregate
from federico.report.table_summary import Summary
from federico.runs.metric import MINUS
from federico.runs.results import CellResult, Provenance
from tests.support.results import (
    SOURCE,
    STORED,
    make_aggregate,
    make_cell,
    make_table,
    two_columns,
)


@pytest.fixture(scope="module")
def summary() -> Summary:
    return two_columns()


def test_a_long_list_of_clients_is_cut_and_says_so() -> None:
    assert text.not_listed(text.MOST_CLIENTS + 1) == "The first 100 of 101 clients are listed."
    assert text.not_listed(text.MOST_CLIENTS) == ""


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0, "0 %"),
        (0.001, "less than 1 %"),
        (0.344, "34 %"),
        (0.997, "more than 99 %"),
        (0.99999, "100 %"),
        (1, "100 %"),
    ],
)
def test_percent(share: float, shown: str) -> None:
    assert text.percent(share) == shown


def runs_of(row: str, *accuracies: float) -> list[CellResult]:
    """One run for each of these accuracies."""
    return [make_cell(row, accuracy, seed=seed) for seed, accuracy in enumerate(accuracies)]


def headline(*cells: list[CellResult], rows: tuple[str, ...] = ("federico", "local")) -> str:
    found = [cell for of_row in cells for cell in of_row]
    seeds = tuple(range(max(len(of_row) for of_row in cells)))
    return text.headline(aggregate(make_table(*rows, seeds=seeds), found))


@pytest.mark.parametrize(
    ("local", "distance"), [(0.739, "6.9 points above Local"), (0.808, "the same as Local")]
)
def test_one_run_is_called_one_run(local: float, distance: str) -> None:
    told = headline(runs_of("federico", 0.808), runs_of("local", local))

    reached = "In a single run FedeRiCo is ahead: 80.8 % accuracy on the clients' own test data"
    assert told == f"{reached}, {distance} (one run does not tell how sure that is)."


def test_a_row_that_is_clearly_above_all_others_is_best() -> None:
    told = headline(runs_of("federico", 0.80, 0.82, 0.81), runs_of("local", 0.70, 0.71, 0.72))

    assert told == (
        "FedeRiCo is best: 81.0 % accuracy on the clients' own test data, "
        "10.0 points above Local (95 % interval +7.5 to +12.5, 3 runs)."
    )


def test_three_better_runs_of_ten_are_no_win() -> None:
    local = [0.80] * 10
    ours = [0.90, 0.90, 0.90, *[0.79] * 7]
    told = headline(runs_of("federico", *ours), runs_of("local", *local))

    assert told == (
        "FedeRiCo is about even with Local: 82.3 % accuracy on the clients' own test data, "
        f"2.3 points above Local (95 % interval {MINUS}1.5 to +6.1, 10 runs)."
    )


def test_a_reference_that_is_barely_above_is_not_called_best() -> None:
    ours = [0.70, 0.80, 0.79, 0.70, 0.80, 0.79]
    local = [0.75, 0.78, 0.80, 0.75, 0.78, 0.80]
    told = headline(runs_of("federico", *ours), runs_of("local", *local))

    assert told.startswith("FedeRiCo is about even with Local: 76.3 % accuracy")
    assert "1.3 points below Local" in told


def test_few_runs_that_differ_do_not_show_that_two_rows_are_even() -> None:
    told = headline(runs_of("federico", 0.70, 0.80, 0.99), runs_of("local", 0.75, 0.78, 0.80))

    assert told.startswith("Three runs do not tell FedeRiCo and Local apart: 83.0 % accuracy")


def test_a_reference_that_is_clearly_above_is_best() -> None:
    told = headline(runs_of("federico", 0.50, 0.51), runs_of("local", 0.95, 0.95))

    assert told == "Local is best: 95.0 % accuracy on the clients' own test data."


def test_two_rows_that_runs_cannot_tell_apart_share_the_lead() -> None:
    told = headline(
        runs_of("federico", 0.80, 0.82, 0.81),
        runs_of("local", 0.70, 0.71, 0.72),
        runs_of("fedavg", 0.81, 0.80, 0.80),
        rows=("federico", "local", "fedavg"),
    )

    assert told.startswith("FedeRiCo has the best mean, not clearly above FedAvg: 81.0 % accuracy")
    assert "10.0 points above Local" in told


def test_without_a_reference_the_two_best_are_compared() -> None:
    told = headline(
        runs_of("federico", 0.80, 0.81), runs_of("fedavg", 0.70, 0.71), rows=("federico", "fedavg")
    )

    assert told == "FedeRiCo is best: 80.5 % accuracy on the clients' own test data."


def test_a_single_row_is_not_called_best() -> None:
    cell = make_cell(
        "fedavg", 0.0, task="regression", figures={"r2": [[0.5] * 3], "loss": [[2.0] * 3]}
    )

    told = text.headline(aggregate(make_table("fedavg"), [cell]))

    assert told == "FedAvg reaches an R2 of 0.500 on the clients' own test data."


def test_models_that_are_worse_than_the_mean_are_told() -> None:
    bad = {"r2": [[0.5] * 3], "loss": [[2.0] * 3], "skill": [[0.5, -0.5, -0.1]]}
    good = bad | {"skill": [[0.5, 0.1, 0.0]]}
    cells = [
        make_cell(row, 0.0, task="regression", figures=figures)
        for row, figures in (("federico", bad), ("local", good))
    ]

    told = text.worse_than_mean(aggregate(make_table(), cells))

    assert told == (
        "2 of 3 clients (FedeRiCo) have a model worse than the mean of their own training targets."
    )

    second_run = [
        make_cell("federico", 0.0, task="regression", figures=good, seed=1),
        make_cell("local", 0.0, task="regression", figures=bad, seed=1),
    ]
    told = text.worse_than_mean(aggregate(make_table(seeds=(0, 1)), [*cells, *second_run]))
    assert told == (
        "On average over runs, 1 of 3 clients (FedeRiCo) and 1 (Local) have a model worse than the "
        "mean of their own training targets."
    )
    assert text.worse_than_mean(aggregate(make_table(), [cells[1]])) == ""


def test_several_columns_are_counted_for_the_row_that_wins_most(summary: Summary) -> None:
    assert text.headline(summary) == (
        "FedeRiCo has the best mean in 2 of 2 columns: +20.0 (+20.0 to +20.0) and "
        "+10.0 (+10.0 to +10.0) points against Local (95 % intervals over 2 runs each)."
    )


def test_no_row_is_called_best_that_wins_in_half_of_the_columns_or_fewer() -> None:
    cells = []
    for column, ours, alone in (("one", 0.6, 0.5), ("two", 0.5, 0.6)):
        cells.append(make_cell("federico", ours, column=column))
        cells.append(make_cell("local", alone, column=column))
    summary = aggregate(make_table(columns=("one", "two")), cells)

    assert text.headline(summary) == (
        "No row has the best mean in most of 2 columns: FedeRiCo in one and Local in one."
    )


def test_where_rounds_differ_the_headline_compares_as_far_as_both_have_got() -> None:
    cells = [make_cell("federico", 0.5, 0.6), make_cell("local", 0.4)]
    summary = aggregate(make_table(), cells)

    told = text.headline(summary)

    assert told == (
        "After round 1, FedeRiCo reaches 50.0 % accuracy on the clients' own test data, "
        "10.0 points above Local (one run does not tell how sure that is)."
    )
    assert "none is called best" in text.notes(summary)
    assert "1 and 2 rounds" in text.extent(summary)


def test_where_no_row_can_be_compared_the_headline_says_that_none_is_best() -> None:
    cells = [make_cell("federico", 0.5, 0.6), make_cell("fedavg", 0.4)]

    told = text.headline(aggregate(make_table("federico", "fedavg"), cells))

    assert told == "Rows were run for different numbers of rounds, so none is called best."


def private_models(accuracy: float) -> dict[str, Any]:
    """What a cell says of clients that have this accuracy alone."""
    figures = {"accuracy": [accuracy] * 3, "loss": [1.0] * 3}
    return {"alone": figures, "together": figures, "together_share": [0.5] * 3}


def test_a_single_row_is_compared_with_its_own_private_models() -> None:
    one = make_cell("federico", 0.809, **private_models(0.742))
    two = make_cell("federico", 0.701, seed=1, **private_models(0.8))

    of_one_seed = text.headline(aggregate(make_table("federico"), [one]))
    of_two_seeds = text.headline(aggregate(make_table("federico", seeds=(0, 1)), [one, two]))

    assert of_one_seed == (
        "FedeRiCo reaches 80.9 % accuracy on the clients' own test data, "
        "6.7 points above training alone (one seed)."
    )
    assert "1.6 points below training alone (95 % interval " in of_two_seeds
    assert "2 runs" in of_two_seeds


def test_where_the_trust_lies() -> None:
    posterior = {"on_own_distribution": 1.0, "effective_collaborators": 1.04}

    told = text.trust(aggregate(make_table(), [make_cell("federico", 0.8, **posterior)]))

    assert told == (
        "With FedeRiCo, a client predicts with 1.0 models on average, and 100 % of its trust lies "
        "on clients of its own distribution."
    )
    assert text.trust(aggregate(make_table(), [make_cell("federico", 0.8)])) == ""


def test_cells_that_are_going_on_say_how_far_they_are() -> None:
    going_on = [make_cell("federico", *[0.5] * 12, seed=seed) for seed in range(7)]

    one = aggregate(make_table(rounds=30), [], unfinished=going_on[:1])
    many = aggregate(make_table(rounds=30), [], unfinished=going_on)

    assert text.progress(one) == "Not finished: FedeRiCo with seed 0 is at round 12 of 30."
    assert text.progress(many).endswith("FedeRiCo with seed 4 is at round 12 of 30 and 2 more.")
    assert text.progress(two_columns()) == ""


def test_nothing_is_evaluated_yet() -> None:
    begun = make_cell("federico", rounds=2)

    told = text.headline(aggregate(make_table(), [], unfinished=[begun]))

    assert told == "Nothing has been evaluated yet."


def test_every_difference_to_the_paper_is_named(summary: Summary) -> None:
    paper = summary.table.paper.model_copy(update={"differs": ("Other features.",), "rate": 0.05})
    table = summary.table.model_copy(update={"paper": paper})
    fewer = [entry for entry in summary.entries if entry is not summary.entries[0]]

    assert text.differences(replace(summary, table=table, entries=fewer)) == [
        "Other features.",
        "1 round; the paper has 150.",
        "2 runs (a seed and a split each); the paper has 3.",
        "Learning rate 0.01; the paper has 0.05.",
        "2 runs of this table are not finished.",
    ]


def test_what_was_done_as_in_the_paper_is_no_difference(summary: Summary) -> None:
    alike = {"rounds": 1, "runs": 2, "rate": 0.01}
    paper = summary.table.paper.model_copy(update=alike)
    table = summary.table.model_copy(update={"paper": paper})

    assert text.differences(replace(summary, table=table)) == []


def test_an_experiment_of_our_own_is_compared_with_no_paper(summary: Summary) -> None:
    ours = aggregate(make_table(paper={"differs": ("Run at --scale 0.1.",)}), [make_cell()])

    assert text.beside(summary) == "Not as in the paper"
    assert text.beside(ours) == "Not the whole experiment"


def test_notes_say_how_rates_were_chosen_only_where_they_were(summary: Summary) -> None:
    told = text.notes(summary)

    assert "after 1 round on a validation part of the clients' training data" in told
    assert "for each row and column; no test data" in told
    assert "validation" not in text.notes(replace(summary, tuned=[]))


def test_costs_do_not_claim_to_be_without_checkpoints(summary: Summary) -> None:
    assert "without evaluation; checkpoints that are written in the background are included" in (
        text.notes(summary)
    )


def test_figures_stored_as_means_are_said_to_be() -> None:
    table = make_table(rounds=2, seeds=(0, 1), stored=STORED)
    measured = [make_cell("local", 0.5, 0.6, seed=seed) for seed in (0, 1)]

    all_stored = aggregate(table, [], [make_aggregate()])
    mixed = aggregate(table, measured, [make_aggregate()])

    assert "All figures here were stored as a mean" in text.notes(all_stored)
    assert "Figures marked * were stored as a mean" in text.notes(mixed)
    assert "stored as a mean" not in text.notes(aggregate(table, measured))


def test_extent(summary: Summary) -> None:
    assert text.extent(summary) == "3 clients, 1 round, 2 seeds, models of 10 parameters"


def test_what_a_command_gave_is_named_shortly() -> None:
    later = Provenance("federico run later.toml", "def5678", "", {}, "")
    cells = []
    for row in ("federico", "local", "fedavg"):
        for column in ("two", "four"):
            source = later if row == "local" or column == "two" else SOURCE
            cells.append(make_cell(row, 0.5, column=column, provenance=source))
    cells.append(make_cell("local", 0.5, column="two", rate_kind="tuning", provenance=later))
    table = make_table("federico", "local", "fedavg", columns=("two", "four"))

    summary = aggregate(table, cells)

    first, second = [source.command for source in summary.sources]
    assert text.part(summary, first) == (
        "FedeRiCo and FedAvg (two), Local at the given rate; learning rates chosen for Local"
    )
    assert text.part(summary, second) == "FedeRiCo and FedAvg (four) at the given rate"
    everything = two_columns()
    assert text.part(everything, everything.sources[0].command) == (
        "all rows at the given rate; all rows at the best rate; "
        "learning rates chosen for FedeRiCo, Local and FedAvg"
    )
