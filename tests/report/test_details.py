from pathlib import Path

import pytest

from federico.errors import RunError
from federico.report.details import read_details, summarize
from federico.runs.table import write_table
from tests.support.results import entry_of, make_table
from tests.support.run_folders import learning, write_cell


def test_a_folder_that_is_no_run_is_refused_with_its_name_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"{tmp_path}: not a run directory.*`federico run`"):
        summarize(tmp_path)


def test_finished_cells_are_read_from_their_results(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=2))
    write_cell(tmp_path, "federico", *learning(0.5, 0.9))

    summary = summarize(tmp_path)

    federico = entry_of(summary)
    assert federico.mean == pytest.approx(0.9)
    assert federico.on_own_distribution == pytest.approx((1 + 1 + 0.9) / 3)
    assert federico.processor_seconds == [1.5, 3.0]
    assert summary.pending == []


def test_a_cell_that_is_going_on_is_pending_with_its_last_round(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=3))
    write_cell(tmp_path, "federico", *learning(0.3, 0.4), finished=False)
    write_cell(tmp_path, "local", *learning(0.2, 0.2, 0.2))

    summary = summarize(tmp_path)

    assert [(cell.row.name, cell.round_index) for cell in summary.pending] == [("federico", 2)]
    assert entry_of(summary).mean == pytest.approx(0.4)
    assert not entry_of(summary).finished


def test_a_run_that_is_to_have_more_rounds_is_unfinished(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=9))
    write_cell(tmp_path, "federico", *learning(0.3))

    assert [cell.round_index for cell in summarize(tmp_path).pending] == [1]


def test_tuning_runs_are_shorter_and_not_pending(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=9))
    write_cell(tmp_path, "federico", *learning(0.3), rate_kind="tuning")

    summary = summarize(tmp_path)

    assert summary.pending == []
    assert summary.tuned[0].scores == {0.01: pytest.approx(0.3)}
    assert read_details(tmp_path, summary.table).descriptions == []


def test_the_posteriors_of_federicos_first_seed_are_shown(tmp_path: Path) -> None:
    table = make_table("local", "federico", rounds=2)
    write_table(tmp_path, table)
    for seed in (1, 0):
        write_cell(tmp_path, "federico", *learning(0.5, 0.6), seed=seed)
        write_cell(tmp_path, "local", *learning(0.5, 0.6), seed=seed)

    details = read_details(tmp_path, table)

    assert details.posteriors is not None
    assert (details.posteriors.title, details.posteriors.seed) == ("FedeRiCo", 0)
    assert details.posteriors.rounds == [1, 2]
    assert details.posteriors.latest[1] == {"a": 0.3, "b": 0.7}
    shown = [(about.method, about.seed) for about in details.descriptions]
    assert shown == [("local", 0), ("local", 1), ("federico", 0), ("federico", 1)]


def test_another_method_with_weights_over_clients_is_shown_where_federico_is_not(
    tmp_path: Path,
) -> None:
    table = make_table("fedem", "mine", rounds=2)
    write_table(tmp_path, table)
    components = [{"posterior": [{"*1": 0.5, "*2": 0.5}] * 3, "figures": {"accuracy": [0.5] * 3}}]
    write_cell(tmp_path, "fedem", *components)
    write_cell(tmp_path, "mine", *learning(0.5, 0.6))

    posteriors = read_details(tmp_path, table).posteriors

    assert posteriors is not None
    assert posteriors.title == "mine"
