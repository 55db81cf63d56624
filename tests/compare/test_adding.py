"""What is saved is added to what was saved before."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federico.compare.adding import Sum, add
from federico.compare.result import Entry, Result, gather
from federico.compare.run import Part, run_study
from federico.compare.saved import Saved, rounded
from federico.compare.study import Study
from federico.compare.studydir import StudyDir
from federico.report.old.summary import Curve

Both = Callable[..., Sum]


@pytest.fixture(scope="module")
def earlier(played: Any) -> Saved:
    """The whole study, saved on another day by one command."""
    found = add(played.study, played.folder, played.result, "before", None)
    return Saved([replace(found.saves[0], commit="old")], [], found.result)


@pytest.fixture
def both(played: Any) -> Both:
    """Add a result to an earlier one, as of the study that was played."""

    def join(
        result: Result,
        earlier: Saved | None,
        study: Study | None = None,
        folder: StudyDir | None = None,
    ) -> Sum:
        return add(study or played.study, folder or played.folder, result, "now", earlier)

    return join


def only(result: Result, row: str) -> Result:
    return replace(
        result, entries=[entry for entry in result.entries if entry.row == row], tuned=[]
    )


def other_seconds(entry: Entry) -> Entry:
    """The same figures from another machine."""
    return replace(entry, processor_seconds=[1 + seconds for seconds in entry.processor_seconds])


def rerun(result: Result) -> Result:
    return replace(result, entries=[other_seconds(entry) for entry in result.entries])


def sources(found: Sum) -> dict[str, set[str]]:
    """The commands that each row comes from."""
    return {
        row: {
            found.saves[save].command
            for entry in found.result.entries
            if entry.row == row
            for save in entry.saves
        }
        for row in found.result.rows
    }


def test_the_first_save_is_the_whole(both: Both, result: Result) -> None:
    found = both(result, None)
    assert [save.command for save in found.saves] == ["now"]
    assert len(found.result.entries) == len(result.entries)
    for after, before in zip(found.result.entries, rounded(result).entries, strict=True):
        assert replace(after, versus=before.versus) == before
    assert found.notes == []


def test_what_is_not_there_now_is_kept_and_what_was_run_anew_is_replaced(
    both: Both, result: Result, earlier: Saved
) -> None:
    found = both(rerun(only(result, "fedavg")), earlier)
    assert sources(found) == {"federico": {"before"}, "local": {"before"}, "fedavg": {"now"}}
    assert [(entry.row, entry.column, entry.at) for entry in found.result.entries] == [
        (entry.row, entry.column, entry.at) for entry in result.entries
    ], "in the order of the study"
    for entry, before in zip(found.result.entries, earlier.result.entries, strict=True):
        assert (entry == before) == (entry.row != "fedavg")
    assert found.result.unfinished == 0
    assert found.notes == []


def test_what_is_only_read_again_says_where_it_first_came_from(
    both: Both, result: Result, earlier: Saved
) -> None:
    found = both(result, earlier)
    assert found.saves == earlier.saves, "nothing is from the new command"
    assert found.result == earlier.result


def test_what_has_diverged_and_is_only_read_again_says_so_too(both: Both, result: Result) -> None:
    nan = float("nan")
    lost = [
        replace(entry, by_client=dict.fromkeys(entry.by_client, nan)) for entry in result.entries
    ]
    tuned = [replace(each, scores=dict.fromkeys(each.scores, nan)) for each in result.tuned]
    diverged = replace(result, entries=lost, tuned=tuned)
    first = both(diverged, None)
    marked = Saved([replace(first.saves[0], command="before")], [], first.result)
    assert [save.command for save in both(diverged, marked).saves] == ["before"]


def test_a_command_nothing_comes_from_any_more_is_forgotten(
    both: Both, result: Result, earlier: Saved
) -> None:
    tried = [replace(each, scores={0.01: 0.5, 0.1: 0.6}) for each in result.tuned]
    found = both(replace(rerun(result), tuned=tried), earlier)
    assert [save.command for save in found.saves] == ["now"]
    assert (
        {entry.saves for entry in found.result.entries}
        == {(each.save,) for each in found.result.tuned}
        == {(0,)}
    )


def test_the_seconds_of_a_save_are_of_what_is_new_in_it(
    both: Both, played: Any, earlier: Saved
) -> None:
    cells = {cell.name: cell for cell in played.told.expected}
    everything = sum(
        sum(each.seconds.values())
        for cell in cells.values()
        for each in played.folder.cell(cell).spent
    )
    assert both(played.result, None).saves[0].seconds == pytest.approx(everything)
    part = both(rerun(only(played.result, "fedavg")), earlier).saves[1].seconds
    mine = {
        name: cell for name, cell in cells.items() if cell.row == "fedavg" and cell.at != "tuning"
    }
    spent = sum(
        sum(each.seconds.values())
        for cell in mine.values()
        for each in played.folder.cell(cell).spent
    )
    assert part == pytest.approx(spent)


def test_differences_are_taken_to_a_reference_that_was_saved_before(
    both: Both, result: Result, earlier: Saved
) -> None:
    alone = [replace(entry, versus=None) for entry in rerun(only(result, "fedavg")).entries]
    found = both(replace(result, entries=alone, tuned=[]), earlier)
    for entry in found.result.entries:
        before = earlier.result.entry(entry.row, entry.column, entry.at)
        assert before is not None
        assert (entry.versus is None) == (entry.row == "local")
        if entry.versus and before.versus:
            assert entry.versus.difference == pytest.approx(before.versus.difference, abs=1e-5)


def test_there_is_no_difference_to_a_reference_with_other_rounds(
    both: Both, result: Result, earlier: Saved
) -> None:
    nine = {"curve": Curve([9], [0.5], [0.0]), "by_seed": {0: 0.9, 1: 0.9}}
    longer = [replace(entry, **nine) for entry in only(result, "local").entries]
    found = both(replace(result, entries=longer, tuned=[]), earlier).result
    for entry in found.entries:
        assert entry.rounds == (9 if entry.row == "local" else 2)
        assert entry.versus is None


def test_the_reference_of_the_study_as_it_is_now_is_the_one_that_counts(
    both: Both, result: Result, earlier: Saved
) -> None:
    for entry in both(replace(result, reference="fedavg"), earlier).result.entries:
        assert (entry.versus is None) == (entry.row == "fedavg")
    assert {
        entry.versus for entry in both(replace(result, reference=None), earlier).result.entries
    } == {None}


def test_there_is_no_difference_to_a_reference_without_a_run_in_common(
    both: Both, result: Result, earlier: Saved
) -> None:
    others = [replace(entry, by_seed={5: 0.5, 6: 0.5}) for entry in only(result, "local").entries]
    rest = [entry for entry in earlier.result.entries if entry.row != "local"]
    before = replace(earlier, result=replace(earlier.result, entries=rest))
    found = both(replace(result, entries=others, tuned=[]), before).result
    assert {entry.versus for entry in found.entries} == {None}


def test_an_entry_with_more_seeds_is_not_lost_to_one_with_fewer(
    both: Both, result: Result, earlier: Saved, tiny: Any
) -> None:
    fewer = [replace(entry, by_seed={0: 0.5}) for entry in only(result, "fedavg").entries]
    found = both(replace(result, entries=fewer, tuned=[], seeds=[0]), earlier, tiny(seeds=[0]))
    assert found.result.entries == earlier.result.entries
    kept = "kept as it was saved, with runs that are not here; to add runs to it, run other seeds alone"
    assert f"FedAvg, four, best rate, 2 rounds: {kept}" in found.notes


def test_runs_of_other_seeds_are_added_and_both_commands_named(
    both: Both, result: Result, earlier: Saved, tiny: Any
) -> None:
    others = [
        replace(entry, by_seed={seed + 5: figure for seed, figure in entry.by_seed.items()})
        for entry in only(result, "fedavg").entries
    ]
    found = both(
        replace(result, entries=others, tuned=[], seeds=[5, 6]), earlier, tiny(seeds=[5, 6])
    )
    assert sources(found) == {
        "federico": {"before"},
        "local": {"before"},
        "fedavg": {"before", "now"},
    }
    for entry in found.result.entries:
        assert list(entry.by_seed) == ([0, 1, 5, 6] if entry.row == "fedavg" else [0, 1])
    assert found.notes == []
    again = both(
        replace(result, entries=others, tuned=[], seeds=[5, 6]),
        Saved(found.saves, [], found.result),
        tiny(seeds=[5, 6]),
    )
    assert again.result.entries == found.result.entries, "what has been added is not added twice"
    assert again.notes == []


def test_runs_at_another_learning_rate_are_not_added(
    both: Both, result: Result, earlier: Saved, tiny: Any
) -> None:
    others = [
        replace(entry, by_seed={5: 0.5}, rate=0.7, settings="other")
        for entry in only(result, "fedavg").entries
        if entry.at == "best"
    ]
    found = both(replace(result, entries=others, tuned=[], seeds=[5]), earlier, tiny(seeds=[5]))
    assert found.result.entries == earlier.result.entries
    kept = [
        entry for entry in earlier.result.entries if entry.row == "fedavg" and entry.at == "best"
    ]
    assert len(found.notes) == len(kept) == 2
    assert all(
        f"at learning rate {entry.rate:g}, where it is 0.7 now" in " ".join(found.notes)
        for entry in kept
    )


def test_runs_that_are_added_are_run_at_the_rate_that_was_chosen(
    earlier: Saved, tiny: Any, tmp_path: Path
) -> None:
    folder, study = StudyDir(tmp_path, earlier.result.tuned), tiny(seeds=[5])
    for row, column in study.pairs():
        assert folder.tuning_cells(study, row, column) == []
        assert folder.tuned(study, row, column) in earlier.result.tuned


def shorter(result: Result) -> Result:
    """The same study run for one round, by another tuning."""
    entries = [
        replace(
            entry,
            curve=Curve([1], [0.5], [0.0]),
            by_seed={0: 0.5},
            rate=0.5 if entry.at == "best" else entry.rate,
        )
        for entry in result.entries
    ]
    tuned = [replace(each, rounds=7, rate=0.5, scores={0.5: 0.5}) for each in result.tuned]
    paper = result.paper.model_copy(update={"differs": ("Run for one round.",)})
    return replace(result, rounds=1, seeds=[0], entries=entries, tuned=tuned, paper=paper)


def test_a_longer_run_is_not_lost_to_a_shorter_one(
    both: Both, result: Result, earlier: Saved, tiny: Any
) -> None:
    found = both(shorter(result), earlier, tiny(rounds=1, seeds=[0]))
    assert (found.saves, found.result.entries) == (earlier.saves, earlier.result.entries)
    assert found.result.tuned == earlier.result.tuned, "how the rates of what is kept were chosen"
    assert (found.result.rounds, found.result.paper) == (2, earlier.result.paper)
    assert len(found.notes) == len(result.entries)
    kept = "kept as it was saved, not replaced by 1 round; to replace it, move the file away and save again"
    assert f"FedAvg, four, best rate, 2 rounds: {kept}" in found.notes


def test_what_is_replaced_by_other_seeds_is_said(
    both: Both, result: Result, earlier: Saved
) -> None:
    nine = {"curve": Curve([9], [0.5], [0.0]), "by_seed": {0: 0.9}}
    longer = [replace(entry, **nine) for entry in only(result, "fedavg").entries]
    found = both(replace(result, entries=longer, tuned=[]), earlier)
    assert sources(found)["fedavg"] == {"now"}
    assert (
        "FedAvg, four, best rate, 2 rounds: replaced: 2 runs of 2 rounds by 1 of 9" in found.notes
    )
    assert len(found.notes) == len(longer)


def test_seeds_are_all_that_any_row_has_and_the_rest_is_unfinished(
    both: Both, result: Result, earlier: Saved
) -> None:
    third = [
        replace(entry, by_seed={**entry.by_seed, 2: 0.5})
        for entry in only(result, "fedavg").entries
    ]
    found = both(replace(result, entries=third, tuned=[]), earlier).result
    assert found.seeds == [0, 1, 2]
    assert found.unfinished == 2 * 2 * 2, "two rows in two columns at two rates have no third run"


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({"training": {"batch_size": 7}}, {"federico", "local", "fedavg"}),
        ({"methods": ["federico", "local"]}, {"fedavg"}),
        ({"federico": {"neighbors": 1}}, {"federico"}),
        ({"rounds": 9}, set()),
        ({"seeds": [5]}, set()),
        (
            {"compare": {"rows": [{"name": "fedavg", "method": "local"}], "paper": {}}},
            {"federico", "local", "fedavg"},
        ),
    ],
)
def test_what_the_study_does_not_describe_any_more_is_dropped_and_said(
    both: Both, result: Result, earlier: Saved, tiny: Any, changes: dict[str, Any], gone: set[str]
) -> None:
    nothing = replace(result, entries=[], tuned=[])
    found = both(nothing, earlier, tiny(**changes))
    assert {entry.row for entry in found.result.entries} == {"federico", "local", "fedavg"} - gone
    assert len(found.notes) == 4 * len(gone)
    if "fedavg" in gone:
        assert (
            "FedAvg, two, given rate, 2 rounds: dropped, it is not part of the study as it is now"
            in found.notes
        )


def test_rates_chosen_before_are_used_and_not_tuned_again(
    earlier: Saved, played: Any, tmp_path: Path
) -> None:
    study, part = played.study, Part(rows=("fedavg",), columns=("four",), at=("best",))
    folder, told = StudyDir(tmp_path, earlier.result.tuned), played.told.__class__()
    run_study(study, folder, told, part=part)
    assert [cell.at for cell in told.finished] == ["best", "best"]
    result = gather(study, folder)
    assert result is not None
    (entry,) = result.entries
    before = earlier.result.entry("fedavg", "four", "best")
    assert before is not None
    assert (entry.rate, entry.by_seed) == (before.rate, pytest.approx(before.by_seed, abs=1e-6))
    found = add(study, folder, result, "now", earlier)
    assert {each.save for each in found.result.tuned} == {0}, "it was tuned by the earlier command"
    assert found.result.tuned == earlier.result.tuned


@pytest.mark.parametrize(
    "compare",
    [
        {"tuning": {"rates": [0.01, 0.1, 0.5], "rounds": 1}},
        {"tuning": {"rates": [0.01, 0.1], "rounds": 2}},
        {"tuning": {"rates": [0.01, 0.1], "rounds": 1, "seeds": 2}},
        {"tuning": {"rates": [0.01, 0.1], "rounds": 1, "validation_fraction": 0.3}},
    ],
)
def test_a_rate_that_was_chosen_in_another_way_is_not_used(
    earlier: Saved, tiny: Any, tmp_path: Path, compare: dict[str, Any]
) -> None:
    folder, known, other = StudyDir(tmp_path, earlier.result.tuned), tiny(), tiny(compare)
    for row, column in known.pairs():
        assert folder.best_rate(known, row, column) is not None
        assert folder.best_rate(other, row, column) is None
        assert folder.tuning_cells(other, row, column) == other.tuning_cells(row, column)


def test_how_a_kept_rate_was_chosen_is_kept_with_it(
    both: Both, result: Result, earlier: Saved
) -> None:
    found = both(replace(only(result, "local"), tuned=[]), earlier)
    assert found.result.tuned == earlier.result.tuned
    given = [entry for entry in earlier.result.entries if entry.at == "given"]
    nothing = both(
        replace(result, entries=[], tuned=[]),
        replace(earlier, result=replace(earlier.result, entries=given)),
    )
    assert nothing.result.tuned == [], "no entry needs it"
