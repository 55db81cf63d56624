import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federico.report.aggregate import aggregate
from federico.report.details import RunDetails, summarize
from federico.report.drawing import render
from federico.report.figures import WORTH, draw_all, worth
from federico.report.summary_data import as_json
from federico.report.table_summary import Summary
from federico.report.tables import result_tables, worth_tables
from federico.report.text import notes
from federico.report.text import worth as sentences
from federico.report.writing import write_tables_and_pictures
from federico.runs.results import CellResult
from federico.runs.table import write_table
from tests.support.results import entry_of, make_cell, make_table
from tests.support.run_folders import write_cell

NO_CELLS = RunDetails([], None)


def compared(
    used: list[float], alone: list[float], share: list[float] | None = None, **changes: Any
) -> CellResult:
    """A cell of FedeRiCo whose collaborators alone are ten points better than what is used."""
    clients = len(used)
    together = [value + 0.1 for value in used]
    loss = [1.0] * clients
    return make_cell(
        "federico",
        used,
        figures={"accuracy": [used], "loss": [loss]},
        clients=changes.pop("clients", [f"c{place}" for place in range(clients)]),
        distribution=None,
        train_samples=[10] * clients,
        test_samples=[10] * clients,
        alone={"accuracy": alone, "loss": loss},
        together={"accuracy": together, "loss": loss},
        together_share=share or [0.8] * clients,
        **changes,
    )


def of_cells(*cells: CellResult) -> Summary:
    return aggregate(make_table("federico", seeds=tuple(range(len(cells)))), list(cells))


def test_clients_are_listed_by_what_they_gain_and_which_they_use() -> None:
    summary = of_cells(compared([0.5, 0.8, 0.6], [0.55, 0.5, 0.6], [0.03, 0.86, 0.5]))
    (table,) = worth_tables(summary)
    assert table.headings == [
        "client", "training samples", "alone", "with collaborators", "used", "gain (points)",
        "predicts",
    ]  # fmt: skip
    assert [[cell.text for cell in line] for line in table.lines] == [
        ["c1", "10", "50.0", "90.0", "80.0", "+30.0", "mostly together (86 %)"],
        ["c2", "10", "60.0", "70.0", "60.0", "0.0", "both (50 %)"],
        ["c0", "10", "55.0", "60.0", "50.0", "\N{MINUS SIGN}5.0", "mostly alone (3 %)"],
    ]


def test_how_sure_each_client_is_has_a_column_where_runs_say_it() -> None:
    cell = compared([0.9, 0.8, 0.7], [0.5] * 3, together_chance=[0.923, 0.6, None])
    (table,) = worth_tables(of_cells(cell))
    assert table.headings[-1] == "how sure"
    assert [line[-1].text for line in table.lines] == ["92 %, together", "about even (60 %)", "-"]


def test_figures_are_means_over_runs() -> None:
    first = compared([0.5, 0.8], [0.5, 0.6], [0.4, 0.8], together_chance=[None, 0.6])
    second = compared([0.7, 0.8], [0.5, 0.7], [0.6, 1.0], together_chance=[0.7, 0.8], seed=1)
    entry = entry_of(of_cells(first, second))
    assert entry.alone == pytest.approx((0.55 + 0.6) / 2)
    one, other = entry.worth
    assert (one.alone, one.used, one.together_share) == pytest.approx((0.5, 0.6, 0.5))
    assert (other.alone, other.used, other.together_share) == pytest.approx((0.65, 0.8, 0.9))
    assert one.together_chance == pytest.approx(0.7), "of the run that says it"
    assert other.together_chance == pytest.approx(0.7)


def test_a_gain_of_r2_is_in_shares_of_the_variance_of_all_targets() -> None:
    # Targets of the second client vary a hundredth as much: its R2 can be anything.
    alone = {"r2": [0.0, -99.0], "loss": [1.0, 1.0]}
    used = {"r2": [[0.5, -49.0]], "loss": [[0.5, 0.5]]}
    cell = compared([0.5, 0.5], [0.5, 0.5])
    changes = {
        "task": "regression",
        "figures": used,
        "alone": alone,
        "together": {name: values[0] for name, values in used.items()},
    }
    one, other = entry_of(of_cells(CellResult(**(vars(cell) | changes)))).worth
    assert one.gain == pytest.approx(0.5 / 0.505)
    assert other.gain == pytest.approx(50 * 0.01 / 0.505)


def test_of_many_clients_only_those_at_both_ends_are_listed() -> None:
    clients = 133
    used = [0.5 + place / 1000 for place in range(clients)]
    (table,) = worth_tables(of_cells(compared(used, [0.55] * clients)))
    names = [line[0].text for line in table.lines]
    assert len(names) == 21
    assert names[0] == "c132"
    assert names[10] == "... 113 others"
    assert names[-1] == "c0"


def test_a_sentence_counts_who_is_better_off() -> None:
    summary = of_cells(compared([0.5, 0.8, 0.6], [0.55, 0.5, 0.6]))
    assert sentences(summary) == [
        "1 of 3 clients is better off than alone, 1 is as well off and 1 is worse off; "
        "the median gain is 0.0 points, from \N{MINUS SIGN}5.0 to +30.0."
    ]
    everybody = of_cells(compared([0.5, 0.8], [0.4, 0.5]))
    assert sentences(everybody)[0].startswith("All 2 clients are better off than alone; ")


def test_the_table_of_results_has_one_short_column_for_it() -> None:
    local = make_cell("local", 0.5)
    both = aggregate(make_table(), [compared([0.8] * 3, [0.5] * 3, clients=["a", "b", "c"]), local])
    (table,) = result_tables(both)
    place = table.headings.index("alone")
    assert [line[place].text for line in table.lines] == ["50.0", ""]
    assert "Alone: models that the same clients trained" in notes(both)


def test_methods_without_private_models_say_nothing() -> None:
    summary = aggregate(make_table(), [make_cell("federico", 0.8), make_cell("local", 0.5)])
    assert worth_tables(summary) == []
    assert sentences(summary) == []
    assert "alone" not in result_tables(summary)[0].headings
    assert WORTH not in dict(draw_all(summary, NO_CELLS))


def test_programs_get_it_by_client() -> None:
    cell = compared([0.5, 0.8], [0.4, 0.5], [0.1, 0.9], together_chance=[None, 0.95])
    found = as_json(of_cells(cell))["entries"][0]
    assert found["alone"] == pytest.approx(0.45)
    assert found["worth"]["c1"] == pytest.approx(
        {
            "alone": 0.5,
            "together": 0.9,
            "used": 0.8,
            "together_share": 0.9,
            "together_chance": 0.95,
            "gain": 0.3,
        }
    )


@pytest.mark.parametrize("clients", [1, 8, 133])
def test_the_picture_has_a_bar_for_each_client_the_highest_first(clients: int) -> None:
    used = [0.5 + place / 1000 for place in range(clients)]
    figure = worth(of_cells(compared(used, [0.55] * clients)))
    (axes,) = figure.axes
    bars = 0
    for patch in axes.patches:
        # Those of many clients are drawn in one piece for each colour.
        bars += 1 if clients < 100 else int(np.isfinite(patch.get_data().values).sum())
    assert bars == clients
    render(figure)


def test_a_client_that_diverged_is_no_bar_and_no_error() -> None:
    cell = compared([0.5, 0.8], [0.4, 0.5])
    figures = {"accuracy": [[None, 0.8]], "loss": [[None, 1.0]]}
    summary = of_cells(CellResult(**(vars(cell) | {"figures": figures})))
    (table,) = worth_tables(summary)
    assert [line[0].text for line in table.lines] == ["c1", "c0"]
    assert table.lines[1][4].text == "diverged"
    render(worth(summary))


def test_one_bar_that_is_far_longer_than_all_others_leaves_room_for_them() -> None:
    clients = 60
    used = [0.5 + place / 10000 for place in range(clients)]
    used[0] = 0.0
    figure = worth(of_cells(compared(used, [0.5] * clients)))
    (axes,) = figure.axes
    lowest, _ = axes.get_ylim()
    assert lowest > -10
    assert "1 bar longer than shown" in axes.get_xlabel()


def test_it_is_a_picture_and_a_table(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico"))
    evaluated = {
        "figures": {"accuracy": [0.8, 0.7, 0.6]},
        "alone": {"accuracy": [0.5] * 3, "loss": [1.0] * 3},
        "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
        "together_share": [0.9] * 3,
    }
    write_cell(tmp_path, "federico", evaluated)
    write_tables_and_pictures(tmp_path, summarize(tmp_path))
    assert (tmp_path / "figures" / "worth.png").exists()
    assert "with collaborators" in (tmp_path / "table.md").read_text()
    assert json.loads((tmp_path / "results.jsonl").read_text())["together_share"] == [0.9] * 3
