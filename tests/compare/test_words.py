from dataclasses import replace

from federico.compare import words
from federico.compare.result import Result
from federico.compare.study import Paper
from federico.report.old.summary import Comparison, Curve


def test_the_headline_counts_columns_won_and_runs(result: Result) -> None:
    won = [
        replace(entry, by_seed={0: 0.9, 1: 0.8}, versus=Comparison(0.1, 2, 2))
        if entry.row == "federico"
        else entry
        for entry in result.entries
    ]
    text = words.headline(replace(result, entries=won))
    assert (
        text
        == "FedeRiCo is best in 2 of 2 columns, +10.0 and +10.0 points against Local (better in 4 of 4 runs)."
    )


def test_columns_that_federico_was_not_run_in_yet_are_not_lost(result: Result) -> None:
    begun = [entry for entry in result.entries if (entry.row, entry.column) != ("federico", "four")]
    assert " of 1 column" in words.headline(replace(result, entries=begun))
    without = [entry for entry in begun if entry.row != "federico"]
    assert words.headline(replace(result, entries=without)).count(" is best with ") == 2


def test_a_single_column_has_a_winner(result: Result) -> None:
    entries = [
        replace(entry, by_seed={0: 0.95}) for entry in result.entries if entry.row == "local"
    ]
    text = words.headline(replace(result, columns=["two"], entries=entries))
    assert text == "Local is best: 95.0 % accuracy."


def test_where_rounds_differ_the_headline_says_that_none_is_best(result: Result) -> None:
    first, *rest = [entry for entry in result.entries if entry.column == "two"]
    mixed = [replace(first, curve=Curve([9], [0.5], [0.0])), *rest]
    given = [entry for entry in mixed if entry.at == "given"]
    text = words.headline(replace(result, columns=["two"], entries=given))
    assert text == "Not everything was run for as many rounds, so none is called best."


def test_costs_do_not_claim_to_be_without_checkpoints(result: Result) -> None:
    assert (
        "without evaluation; checkpoints that are written in the background are in them"
        in words.notes(result)
    )


def test_every_difference_to_the_paper_is_named(result: Result) -> None:
    paper = result.paper.model_copy(update={"differs": ("Other features.",)})
    (first, *rest) = result.entries
    found = words.differences(
        replace(result, paper=paper, entries=[replace(first, by_seed={0: 0.5}), *rest])
    )
    assert found == [
        "Other features.",
        "2 rounds; the paper has 150.",
        "2 runs (a seed and a split each); the paper has 3.",
        "1 run of this study is not finished.",
    ]
    alike = result.paper.model_copy(update={"rounds": 2, "runs": 2, "rate": 0.01})
    assert words.differences(replace(result, paper=alike)) == []
    other = alike.model_copy(update={"rate": 0.05})
    assert words.differences(replace(result, paper=other)) == [
        "Learning rate 0.01; the paper has 0.05."
    ]


def test_a_study_of_our_own_is_compared_with_no_paper(result: Result) -> None:
    assert words.beside(result) == "Not as in the paper"
    ours = replace(result, paper=Paper(differs=("Run at --scale 0.1.",)))
    assert words.beside(ours) == "Not the whole study"


def test_notes_say_how_rates_were_chosen_only_where_they_were(result: Result) -> None:
    assert "after 1 round on a validation part of the clients' training data" in words.notes(result)
    given = [entry for entry in result.entries if entry.at == "given"]
    assert "validation" not in words.notes(replace(result, entries=given, tuned=[]))
    assert words.shown_at(replace(result, entries=given)) == "given"


def test_extent(result: Result) -> None:
    assert words.extent(result) == "4 clients, 2 rounds, 2 seeds, models of 650 parameters"


def test_rounds_are_those_of_the_entries(result: Result) -> None:
    (first, *rest) = result.entries
    longer = replace(result, entries=[replace(first, curve=Curve([9], [0.5], [0.0])), *rest])
    assert "2 and 9 rounds" in words.extent(longer)
    assert "none is called best" in words.notes(longer)
    assert "none is called best" not in words.notes(result)
    assert "2 and 9 rounds; the paper has 150." in words.differences(longer)


def test_what_rates_were_chosen_for_is_said(result: Result) -> None:
    assert "for each row and column; no test data" in words.notes(result)
    shared = [replace(each, settings="same") for each in result.tuned]
    assert "for each row; no test data" in words.notes(replace(result, tuned=shared))


def test_what_a_save_gave_is_named_shortly(result: Result) -> None:
    assert words.part(result, 0) == (
        "all rows at the given rate; all rows at the best rate; learning rates chosen for FedeRiCo, Local and FedAvg"
    )
    later = [
        replace(entry, saves=(1,))
        if entry.at == "given" and (entry.row == "local" or entry.column == "two")
        else entry
        for entry in result.entries
    ]
    parts = replace(result, entries=later)
    assert words.part(parts, 1) == "FedeRiCo and FedAvg (two), Local at the given rate"
    assert words.part(parts, 0).startswith(
        "FedeRiCo and FedAvg (four) at the given rate; all rows at the best rate; "
    )
