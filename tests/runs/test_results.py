from pathlib import Path

import pytest

from federico.errors import RunError
from federico.runs.results import RESULTS, append_result, merge_results, read_results
from tests.support.results import make_cell


def test_a_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    cell = make_cell("local", 0.5, 0.75, distribution=None)
    append_result(tmp_path, cell)
    assert read_results(tmp_path) == ([cell], [])


def test_of_two_lines_with_one_key_the_later_one_counts(tmp_path: Path) -> None:
    append_result(tmp_path, make_cell("local", 0.5))
    append_result(tmp_path, make_cell("local", 0.75))
    append_result(tmp_path, make_cell("local", 0.25, seed=1))
    cells, _ = read_results(tmp_path)
    assert [cell.figures["accuracy"][0][0] for cell in cells] == [0.75, 0.25]


def test_a_line_cut_short_by_a_crash_costs_nothing_but_itself(tmp_path: Path) -> None:
    file = tmp_path / RESULTS
    append_result(tmp_path, make_cell("local", 0.5))
    append_result(tmp_path, make_cell("federico", 0.75))
    file.write_bytes(file.read_bytes()[:-200])

    cells, _ = read_results(tmp_path)
    assert [cell.row for cell in cells] == ["local"]

    append_result(tmp_path, make_cell("federico", 0.75))
    cells, _ = read_results(tmp_path)
    assert [cell.row for cell in cells] == ["local", "federico"]


def test_a_damaged_line_is_named_with_the_remedy(tmp_path: Path) -> None:
    append_result(tmp_path, make_cell("local", 0.5))
    with (tmp_path / RESULTS).open("a") as file:
        file.write("not a result\n")
    with pytest.raises(RunError, match=r"results\.jsonl: line 2 .* delete that line"):
        read_results(tmp_path)


def test_merging_is_a_union_by_key(tmp_path: Path) -> None:
    append_result(tmp_path, make_cell("local", 0.5))
    append_result(tmp_path, make_cell("federico", 0.5))
    merge_results(tmp_path, [make_cell("federico", 0.75), make_cell("federico", 0.25, seed=1)])
    cells, _ = read_results(tmp_path)
    found = {(cell.row, cell.seed): cell.figures["accuracy"][0][0] for cell in cells}
    assert found == {("local", 0): 0.5, ("federico", 0): 0.75, ("federico", 1): 0.25}


def test_means_over_all_clients_say_nothing_of_the_honest_ones() -> None:
    trust = {"on_own_distribution": 0.9, "effective_collaborators": 2.5}
    result = make_cell("federico", 0.5, hostile=["c"], **trust)
    honest = result.without_hostile()
    assert honest.clients == ["a", "b"]
    assert honest.on_own_distribution is None
    assert honest.effective_collaborators is None
    nobody_is_hostile = make_cell("federico", 0.5, **trust).without_hostile()
    assert nobody_is_hostile.effective_collaborators == 2.5
