"""A cell that goes on is read on, not again; what is read is what all of it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from federico.runs.layout import CellDir
from federico.runs.records import Journal, Record
from federico.ui.cell_view import cell_view
from federico.ui.client_view import client_view
from federico.ui.rounds import MOST_READ, MOST_ROUNDS, NoRoundYetError, read_cell, shown_rounds
from tests.support.run_folders import QUIET_ROUND, learning, write_cell

BYTES: dict[str, Any] = {"sent": [3, 2, 1], "received": [1, 2, 3]}


def append(cell: CellDir, *rounds: dict[str, Any], after: int) -> None:
    for number, values in enumerate(rounds, start=after + 1):
        values["figures"].setdefault("loss", [1.0] * 3)
        Journal(cell.path).append(Record(**(QUIET_ROUND | values | {"round": number})))


def views(cell: Any) -> list[Any]:
    return [cell_view(cell), *(client_view(cell, name) for name in cell.about.clients)]


@pytest.mark.parametrize("rounds", [1, 5, MOST_ROUNDS, 2 * MOST_ROUNDS + 1])
def test_what_is_read_on_is_what_is_read_at_once(tmp_path: Path, rounds: int) -> None:
    cell = write_cell(tmp_path, "federico", learning(0.5)[0] | BYTES, finished=False)
    before = read_cell(cell.path)
    views(before)
    append(cell, *[learning(0.5, 0.9)[1] | BYTES for _ in range(rounds)], after=1)

    read_on = read_cell(cell.path, before)

    assert views(read_on) == views(read_cell(cell.path))
    assert read_on.traffic.sent == [3 * (rounds + 1), 2 * (rounds + 1), rounds + 1]
    assert read_on.rounds[0] is before.rounds[0]


def test_nothing_new_is_nothing_to_read(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9), finished=False)
    before = read_cell(cell.path)
    with (cell.path / "records.jsonl").open("a") as file:
        file.write('{"round": 3, "fig')  # is being written

    assert read_cell(cell.path, before) is before


def test_a_run_that_was_started_over_is_read_anew(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9), finished=False)
    before = read_cell(cell.path)
    (cell.path / "records.jsonl").write_text("")
    append(cell, *learning(0.1, 0.2, 0.3), after=0)

    found = read_cell(cell.path, before)

    assert cell_view(found) == cell_view(read_cell(cell.path))
    assert len(found.rounds) == 3


def test_other_clients_are_another_cell(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9), finished=False)
    before = read_cell(cell.path)
    about = json.loads((cell.path / "cell.json").read_text())
    (cell.path / "cell.json").write_text(json.dumps(about | {"clients": ["x", "b", "c"]}))

    assert cell_view(read_cell(cell.path, before))["clients"] == ["x", "b", "c"]


def test_a_cell_without_a_round_says_that_it_has_only_begun(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", finished=False)

    with pytest.raises(NoRoundYetError, match="wait for the first"):
        read_cell(cell.path)


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 402, 1000, 12345])
def test_rounds_are_shown_evenly_and_stay(count: int) -> None:
    shown = shown_rounds(count, 3)

    assert {1, count} <= set(shown)
    assert len(shown) <= MOST_ROUNDS + 2
    assert set(shown) - {1, count} <= set(shown_rounds(count - 1, 3)) | {count}
    if count <= MOST_ROUNDS:
        assert shown == list(range(1, count + 1))


@pytest.mark.parametrize("clients", [1_000, 10_000, 1_000_000])
def test_of_many_clients_fewer_rounds_are_shown(clients: int) -> None:
    shown = shown_rounds(400, clients)

    assert {1, 400} <= set(shown)
    assert (len(shown) - 2) * clients <= MOST_READ or len(shown) <= 4
    assert clients > 1_000 or shown == list(range(1, 401))
