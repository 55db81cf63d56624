"""What the views say of a run: clusters where nobody knows better, FedAvg, why trust moved."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from federico.runs.results import read_results
from federico.runs.table import write_table
from federico.ui.cell_view import cell_view
from federico.ui.client_view import client_view
from federico.ui.rounds import read_cell
from federico.ui.run_view import run_view
from federico.ui.runs_view import run_line
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

    (move,) = shown["moves"]
    assert (move["since"], move["round"]) == (1, 2)
    assert move["changes"] == [
        {"owner": "a", "before": 1.0, "after": 0.6},
        {"owner": "b", "before": 0.0, "after": 0.4},
    ]
    assert move["judged"] == [{"owner": "b", "gain": 5.1}, {"owner": "a", "gain": 4.2}]
    assert shown["judged_on"] == "samples that it held out of training"
    assert shown["last_round"] == 2


def test_bytes_of_a_client_are_known_by_round(tmp_path: Path) -> None:
    first, second = learning(0.5, 0.9)
    first |= {"sent": [3, 2, 1], "received": [1, 2, 3], "evaluation_sent": [0, 7, 0]}
    second |= {"sent": [6, 4, 2], "evaluation_received": [0, 5, 0]}
    cell = write_cell(tmp_path, "federico", first, second)

    shown = client_view(read_cell(cell.path), "b")

    assert shown["rounds"] == [1, 2]
    assert shown["traffic"] == [[2, 4], [2, 0], [7, 0], [0, 5]]


def test_seconds_are_shared_out_by_the_samples_that_models_met(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9))

    whole = read_cell(cell.path)
    shown = client_view(whole, "b")

    # A second a round: 3 of the 10 samples that were trained on, and 3 of the 10 tested, are its.
    assert shown["phases"] == {"train": [0.225, 0.225], "evaluate": [0.075, 0.075]}
    assert cell_view(whole)["seconds"] == pytest.approx([1.0, 0.6, 0.4])


def test_the_seconds_of_all_rounds_are_read_once_for_all_clients(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9))
    timings = cell.path / "timings.jsonl"
    content = timings.read_text()
    whole = read_cell(cell.path)

    # Those of a round are written after its record.
    timings.write_text(content.splitlines(keepends=True)[0])
    assert client_view(whole, "b")["phases"] == {}

    timings.write_text(content)
    phases = client_view(whole, "b")["phases"]
    assert phases["train"] == [0.225, 0.225]

    timings.unlink()
    assert client_view(whole, "b")["phases"] == phases
    assert cell_view(whole)["phases"]["train"] == [0.75, 0.75]


@pytest.mark.parametrize(
    "samples",
    [
        None,
        {"train": [1, 2]},
        {"train": [0, 0, 0]},
        {"train": [-5, 7, 1]},
        {"train": [10**23, 1, 1]},
        "damaged",
    ],
)
def test_seconds_are_not_shared_out_where_a_round_does_not_say_how(
    tmp_path: Path, samples: object
) -> None:
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9))
    lines = [json.loads(line) for line in (cell.path / "timings.jsonl").read_text().splitlines()]
    if samples is None:
        del lines[1]["samples"]
    else:
        lines[1]["samples"] = samples
    (cell.path / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    whole = read_cell(cell.path)

    assert client_view(whole, "b")["phases"] == {}
    assert cell_view(whole)["seconds"] == []


def test_what_records_say_of_collaborators_is_shown_over_the_rounds(tmp_path: Path) -> None:
    first, second = learning(0.5, 0.9)
    alike = {"accuracy": [0.5] * 3, "loss": [1.0] * 3}
    together = {"accuracy": [0.4] * 3, "loss": [1.0] * 3}
    second |= {"alone": alike, "together": together, "together_share": [0.9, 0.6, 0.3]}
    second["on_own_distribution"] = [1.0, 1.0, 0.4]
    cell = write_cell(tmp_path, "federico", first, second)

    shown = {each["key"]: each for each in cell_view(read_cell(cell.path))["figures"]}

    assert (shown["accuracy"]["alone"], shown["accuracy"]["together"]) == ([0.5], [0.4])
    assert shown["together_share"]["rounds"] == [2]
    assert shown["together_share"]["used"] == pytest.approx([0.6])
    assert shown["on_own_distribution"]["used"] == pytest.approx([0.8])
    effective = shown["effective_collaborators"]
    assert effective["used"] == pytest.approx([1.0, (1 / 0.52 + 1 / 0.58 + 1 / 0.82) / 3], abs=1e-5)
    assert not effective["percent"]


def test_rounds_seeds_and_methods_are_settings_too(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=3000, seeds=(0, 1), columns=("", "hard")))
    write_cell(tmp_path, "federico", *learning(0.5, 0.9))

    settings = run_view("run", tmp_path)["settings"]

    assert settings["rounds"] == "3,000"
    assert settings["seeds"] == "0, 1"
    assert settings["methods"] == "FedeRiCo, Local"


def test_where_seeds_have_other_clients_all_of_them_are_counted(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico", seeds=(0, 1)))
    for seed in (0, 1):
        better_alone = 0.5 + 0.4 * seed
        compared = {
            "figures": {"accuracy": [0.8, 0.7, 0.6]},
            "alone": {"accuracy": [0.5, 0.5, better_alone], "loss": [1.0] * 3},
            "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
            "together_share": [0.9] * 3,
        }
        write_cell(tmp_path, "federico", compared, seed=seed, clients_drawn=True)

    line = run_line("run", tmp_path)
    shown = run_view("run", tmp_path)

    assert (line["better"], line["compared"]) == (5, 6)
    assert shown["worth"][0].startswith("5 of 6 clients of 2 runs are better off")
    # A picture of single clients is of one seed, and says so.
    assert shown["rows"][0]["clients_of_seed"] == 0
    assert len(shown["rows"][0]["clients"]) == 3
    assert "single clients are those of seed 0" in shown["worth_note"]


def test_kept_results_say_when_they_were_finished_and_of_which_data(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_table(run, make_table("federico", title="Digits, kept", seeds=(0, 1)))
    write_cell(run, "federico", *learning(0.5, 0.9))
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("table.json", "results.jsonl"):
        (kept / name).write_bytes((run / name).read_bytes())

    line = run_line("kept", kept)

    assert (line["data"], line["missing"], line["pace"]) == ("Digits, kept", 1, None)
    finished = read_results(kept)[0][0].provenance.finished
    assert line["when"] == datetime.fromisoformat(finished).timestamp()


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
        "together_chance": [0.97, None, 0.4],
    }
    write_cell(tmp_path, "federico", compared)
    write_cell(tmp_path, "fedavg", {"figures": {"accuracy": [0.3, 0.2, 0.1]}})

    rows = run_view("run", tmp_path)["rows"]

    clients = {each["client"]: each for each in rows[0]["clients"]}
    assert clients["a"]["fedavg"] == pytest.approx(0.3)
    assert clients["c"]["fedavg"] == pytest.approx(0.1)
    assert clients["a"]["alone"] == pytest.approx(0.5)
    assert clients["a"]["sure"] == "97 %, together"
    assert clients["b"]["sure"] == "-"
    assert clients["c"]["sure"] == "about even (40 %)"
