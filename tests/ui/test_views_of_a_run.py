"""What the views say of a run: clusters where nobody knows better, FedAvg, why trust moved."""

from pathlib import Path

import pytest

from federico.runs.table import write_table
from federico.ui.cell_view import cell_view
from federico.ui.client_view import client_view
from federico.ui.rounds import read_cell
from federico.ui.run_view import run_view
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell

HELD_OUT = {"federico": {"evidence": "held_out"}}


def test_clusters_are_found_where_distributions_are_not_known(tmp_path: Path) -> None:
    rounds = learning(0.5, 0.9)
    rounds[1]["posterior"] = [{"a": 0.6, "b": 0.4}, {"a": 0.3, "b": 0.7}, {"c": 1.0}]
    known = write_cell(tmp_path, "federico", *rounds)
    unknown = write_cell(tmp_path, "federico", *rounds, seed=1, distribution=None)

    truth = cell_view(read_cell(known.path))["trust"]
    found = cell_view(read_cell(unknown.path))["trust"]

    assert (truth["group_word"], truth["groups"]) == ("distribution", [0, 0, 1])
    assert found["group_word"] == "cluster"
    a, b, c = found["groups"]
    assert a == b != c


def test_bytes_are_split_into_training_and_evaluation(tmp_path: Path) -> None:
    traffic = {"moved": 50, "evaluation_moved": 7, "sent": [3, 2, 1], "evaluation_sent": [0, 0, 7]}
    cell = write_cell(tmp_path, "federico", *[each | traffic for each in learning(0.5, 0.9)])

    shown = cell_view(read_cell(cell.path))

    assert (shown["moved"], shown["evaluation_moved"]) == ([50, 50], [7, 7])
    assert (shown["sent"], shown["evaluation_sent"]) == ([6, 4, 2], [0, 0, 14])
    assert shown["phases"] == {"train": [0.75, 0.75], "evaluate": [0.25, 0.25]}


def test_what_was_found_says_why_trust_moved(tmp_path: Path) -> None:
    first, second = learning(0.5, 0.9)
    second["gains"] = [{"a": 4.2, "b": 5.1}, {"b": None}, {"c": 1.0, "a": -0.4}]
    cell = write_cell(tmp_path, "federico", first, second, options=HELD_OUT)

    shown = client_view(read_cell(cell.path), "a")

    to_itself, to_b = shown["moves"]
    assert (to_itself["owner"], to_itself["before"], to_itself["after"]) == ("a", 1.0, 0.6)
    assert (to_b["owner"], to_b["before"], to_b["after"]) == ("b", 0.0, 0.4)
    assert to_b["judged"] == [{"owner": "b", "gain": 5.1}, {"owner": "a", "gain": 4.2}]
    assert shown["judged_on"] == "samples that it held out of training"
    assert shown["last_round"] == 2


def test_records_without_evidence_name_whom_the_client_judged(tmp_path: Path) -> None:
    first, second = learning(0.5, 0.9)
    second["neighbors"] = [["b"], [], []]
    cell = write_cell(tmp_path, "federico", first, second)

    shown = client_view(read_cell(cell.path), "a")

    assert shown["moves"][0]["judged"] == [{"owner": "b", "gain": None}]


def test_clients_are_compared_with_fedavg_where_there_is_one(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico", "fedavg"))
    compared = {
        "figures": {"accuracy": [0.8, 0.7, 0.6]},
        "alone": {"accuracy": [0.5] * 3, "loss": [1.0] * 3},
        "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
        "together_share": [0.9] * 3,
    }
    write_cell(tmp_path, "federico", compared)
    write_cell(tmp_path, "fedavg", {"figures": {"accuracy": [0.3, 0.2, 0.1]}})

    rows = run_view("run", tmp_path)["rows"]

    clients = {each["client"]: each for each in rows[0]["clients"]}
    assert clients["a"]["fedavg"] == pytest.approx(0.3)
    assert clients["c"]["fedavg"] == pytest.approx(0.1)
    assert clients["a"]["alone"] == pytest.approx(0.5)
