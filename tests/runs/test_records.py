import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from federico.errors import RunError
from federico.exchange.protocol import ByteCount, Traffic
from federico.experiment.evaluation import Evaluation
from federico.experiment.recording import record_round
from federico.learning.metrics import Scores
from federico.methods.method import Gains, Posterior, Refusals, Round
from federico.runs.layout import RunDir
from federico.runs.records import (
    Journal,
    Record,
    iterate_parts,
    read_records,
    read_spent,
)
from federico.stopwatch import Spent


def make(index: int = 1, figures: dict[str, list[float | None]] | None = None) -> Record:
    return Record(
        index,
        figures or {"accuracy": [0.5, 1.0], "loss": [0.1, 0.2]},
        [["b"], []],
        [{"a": 0.25, "b": 0.75}, {"b": 1.0}],
        [8, 0],
        [0, 8],
        8,
        [0, 4],
        [4, 0],
        4,
    )


def spent(seconds: float) -> Spent:
    return Spent({"m_step": seconds}, {"m_step": 2 * seconds})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Three rounds."""
    journal = Journal(tmp_path)
    for index in (1, 2, 3):
        journal.append(make(index))
        journal.append_spent(index, spent(index / 10))
    return journal


def test_records_come_back_as_they_were_written(journal: Journal, tmp_path: Path) -> None:
    assert read_records(tmp_path) == [make(1), make(2), make(3)]
    assert read_spent(tmp_path) == [spent(0.1), spent(0.2), spent(0.3)]


def test_rewind_forgets_what_came_after(journal: Journal, tmp_path: Path) -> None:
    first = journal.records.read_bytes().index(b"\n") + 1
    journal.rewind(first, 1)
    assert read_records(tmp_path) == [make(1)]
    assert read_spent(tmp_path) == [spent(0.1)]
    journal.append(make(2))
    assert [record.round for record in read_records(tmp_path)] == [1, 2]


def test_rewind_to_the_start_works_where_nothing_is_yet(tmp_path: Path) -> None:
    Journal(tmp_path).rewind(0, 0)
    assert read_records(tmp_path) == []
    assert read_spent(tmp_path) == []


def test_rewind_refuses_records_shorter_than_the_checkpoint_says(journal: Journal) -> None:
    with pytest.raises(RunError, match=r"records\.jsonl: .*shorter"):
        journal.rewind(journal.size() + 1, 3)


@pytest.mark.parametrize("cut", [1, 5])
def test_line_cut_short_by_a_crash_is_not_read(journal: Journal, tmp_path: Path, cut: int) -> None:
    for file in (journal.records, journal.timings):
        file.write_bytes(file.read_bytes()[:-cut])
    assert len(read_records(tmp_path)) == len(read_spent(tmp_path)) == 2


def test_size_is_where_the_next_record_begins(journal: Journal) -> None:
    assert journal.size() == len(journal.records.read_bytes())


def test_two_runs_of_one_experiment_leave_the_same_bytes(
    finished: RunDir, play: Callable[..., tuple[RunDir, object]]
):
    again, _ = play(methods=["federico", "fedavg"])
    for cell in ("federico-0", "fedavg-0"):
        first, second = (
            (run.path / cell / "records.jsonl").read_bytes() for run in (finished, again)
        )
        assert first == second
        assert first.count(b"\n") == 2


def test_records_of_another_seed_differ(
    finished: RunDir, play: Callable[..., tuple[RunDir, object]]
) -> None:
    other, _ = play(seeds=[1])
    assert other.cell("federico", 1).records != finished.cell("federico", 0).records


def test_record_names_peers_and_hides_what_is_not_finite(tmp_path: Path) -> None:
    scores = Scores(
        {"loss": np.array([np.nan, np.inf, 0.5]), "accuracy": np.array([0.0, 0.5, 1.0])}
    )
    posterior = [
        Posterior(np.array([0, 2]), np.array([0.25, 0.75])),
        Posterior(np.array([1]), np.ones(1)),
    ]
    played = Round([np.array([2]), np.array([], dtype=np.int64)], posterior)
    training = ByteCount(np.array([4, 0, 0, 99]), np.array([0, 4, 0, 99]))  # the last is no client
    evaluation = ByteCount(np.array([0, 7, 0, 1]), np.array([7, 0, 1, 0]))
    traffic = {"training": training, "evaluation": evaluation}
    names = ("a", "b", "c")
    record = record_round(7, names, np.arange(3), 3, Evaluation(scores), played, traffic)
    assert record.figures == {"loss": [None, None, 0.5], "accuracy": [0.0, 0.5, 1.0]}
    assert record.neighbors == [["c"], []]
    assert record.posterior == [{"a": 0.25, "c": 0.75}, {"b": 1.0}]
    assert (record.sent, record.received, record.moved) == ([4, 0, 0], [0, 4, 0], 103)
    assert (record.evaluation_sent, record.evaluation_received) == ([0, 7, 0], [7, 0, 1])
    assert record.evaluation_moved == 8
    Journal(tmp_path).append(record)
    assert json.loads((tmp_path / "records.jsonl").read_text())["figures"]["loss"] == [
        None,
        None,
        0.5,
    ]


def test_what_judged_models_were_worth_is_recorded_by_name(tmp_path: Path) -> None:
    gains = [
        Gains(np.array([0, 1]), np.array([1.23456, -np.inf])),
        Gains(np.array([1]), np.array([0.5])),
    ]
    nobody = Traffic(2).take()
    record = record_round(1, ("a", "b"), np.arange(2), 2, None, Round(gains=gains), nobody)

    Journal(tmp_path).append(record)
    (read,) = read_records(tmp_path)
    assert read.gains == [{"a": 1.235, "b": None}, {"b": 0.5}]
    first = replace(record, gains=record.gains[:1] if record.gains else None)
    second = replace(record, gains=record.gains[1:] if record.gains else None)
    assert Record.joined([first, second]).gains == read.gains


def test_whose_updates_were_refused_is_recorded_by_name(tmp_path: Path) -> None:
    nobody = Refusals(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
    one = Refusals(np.array([0]), np.array([0.123456]), np.array([3]))
    traffic = Traffic(2).take()
    made = {
        "second": Round(neighbors=[np.empty(0, np.int64)] * 2, refusals=[nobody, one]),
        "none": Round(neighbors=[np.empty(0, np.int64)] * 2, refusals=[nobody, nobody]),
    }
    records = {
        which: record_round(1, ("a", "b"), np.arange(2), 2, None, played, traffic)
        for which, played in made.items()
    }
    assert records["none"].standing is None
    Journal(tmp_path).append(records["second"])
    (read,) = read_records(tmp_path)
    assert read.standing == [{}, {"a": 0.1235}]
    assert read.refusals == [{}, {"a": 3}]

    # A process whose clients have refused nothing says nothing of them.
    joined = Record.joined([records["none"], records["second"]])
    assert joined.standing == [{}, {}, {}, {"a": 0.1235}]


def test_round_that_was_not_evaluated_has_no_scores() -> None:
    record = record_round(1, ("a",), np.arange(1), 1, None, Round(), Traffic(1).take())
    assert record.figures is None


def test_number_that_json_cannot_hold_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Journal(tmp_path).append(make(figures={"loss": [float("nan"), 1.0]}))


def test_damaged_timings_cost_nothing_but_themselves(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(make(1))
    journal.append_spent(1, spent(1.0))
    journal.timings.write_bytes(b"\x00\xff{not json\n")
    journal.rewind(journal.size(), 1)
    assert read_spent(tmp_path) == []
    assert len(read_records(tmp_path)) == 1


@pytest.mark.parametrize("continued", [False, True])
def test_seconds_of_a_cell_that_was_begun_without_them_are_as_good_as_none(
    journal: Journal, tmp_path: Path, continued: bool
) -> None:
    lines = [json.loads(line) for line in journal.timings.read_text().splitlines()]
    del lines[0]["processor_seconds"]
    journal.timings.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if continued:
        journal.rewind(journal.size(), 3)
        journal.append_spent(4, spent(0.4))
    assert read_spent(tmp_path) == []


def test_damaged_records_are_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("{}}\n")
    with pytest.raises(RunError, match=r"records\.jsonl: damaged .* delete the folder"):
        read_records(tmp_path)
    with pytest.raises(RunError, match=r"records\.jsonl: damaged .* delete the folder"):
        list(iterate_parts(tmp_path, TypeAdapter(dict[str, int])))


def record_of_many(clients: int) -> Record:
    """Everybody has met everybody; the weight on oneself is the largest."""
    everybody = np.arange(clients)
    rows = []
    for client in range(clients):
        weights = np.full(clients, 0.5 / (clients - 1))
        weights[client] = 0.5
        rows.append(Posterior(everybody, weights))
    names = [str(client) for client in range(clients)]
    distribution = [client % 2 for client in range(clients)]
    played = Round([], rows)
    return record_round(
        1, names, everybody, clients, None, played, Traffic(clients).take(), distribution
    )


def test_up_to_64_clients_keep_every_weight() -> None:
    record = record_of_many(64)
    assert all(len(row) == 64 for row in record.posterior)
    assert record.effective_collaborators is None
    assert record.on_own_distribution is None


def test_the_record_of_many_clients_stays_small_and_says_what_the_rest_comes_to(
    tmp_path: Path,
) -> None:
    record = record_of_many(1000)
    Journal(tmp_path).append(record)
    assert (tmp_path / "records.jsonl").stat().st_size < 150_000
    assert [len(row) for row in record.posterior] == [4] * 1000
    assert all(row[str(client)] == 0.5 for client, row in enumerate(record.posterior))
    assert record.effective_collaborators == pytest.approx([1 / (0.25 + 0.25 / 999)] * 1000, 1e-3)
    assert record.on_own_distribution == pytest.approx([0.5 + 0.5 * 499 / 999] * 1000, 1e-3)
    assert read_records(tmp_path) == [record]


@pytest.mark.parametrize(("clients", "written"), [(999, 2 / 3), (1000, 0.66667), (10_000, 0.6667)])
def test_figures_of_a_thousand_clients_have_five_digits_and_of_ten_thousand_four(
    clients: int, written: float
) -> None:
    names = [str(client) for client in range(clients)]
    scores = Scores({"loss": np.full(clients, 2 / 3)})
    traffic = Traffic(clients).take()
    record = record_round(
        1, names, np.arange(clients), clients, Evaluation(scores), Round(), traffic
    )
    assert record.figures == {"loss": [written] * clients}


@pytest.mark.parametrize(
    ("clients", "round_index", "whole", "kept"),
    [
        (999, 3, False, True),
        (1000, 8, False, False),
        (1000, 4, False, True),
        (1000, 3, True, True),
    ],
)
def test_a_thousand_clients_are_compared_with_themselves_alone_in_some_rounds_and_the_last(
    clients: int, round_index: int, whole: bool, kept: bool
) -> None:
    names = [str(client) for client in range(clients)]
    scores = Scores({"loss": np.full(clients, 0.5)})
    refused = Refusals(np.array([1]), np.array([0.5]), np.array([2]))
    record = record_round(
        round_index,
        names,
        np.arange(clients),
        clients,
        Evaluation(scores, alone=scores, together=scores),
        Round(
            together=np.full(clients, 0.5),
            together_chance=np.full(clients, np.nan),
            refusals=[refused] * clients,
        ),
        Traffic(clients).take(),
        whole=whole,
    )
    assert record.figures == {"loss": [0.5] * clients}, "of what they use, in every round"
    assert (record.standing is not None) == kept
    assert (record.refusals is not None) == kept
    assert (record.alone is not None) == kept
    assert (record.together is not None) == kept
    assert (record.together_share is not None) == kept
    assert record.together_chance == ([None] * clients if kept else None)


def test_records_of_two_processes_are_joined_to_those_of_one() -> None:
    whole = record_of_many(100)
    parts = [
        replace(
            whole,
            posterior=whole.posterior[some],
            effective_collaborators=(whole.effective_collaborators or [])[some],
            on_own_distribution=(whole.on_own_distribution or [])[some],
        )
        for some in (slice(0, 30), slice(30, None))
    ]
    assert Record.joined(parts) == whole


@pytest.mark.parametrize(
    "seconds",
    ["NaN", "Infinity", "1e308", "-1.0", pytest.param("[" * 100_000, id="nested")],
)
def test_seconds_that_nobody_can_have_spent_are_as_good_as_none(
    journal: Journal, tmp_path: Path, seconds: str
) -> None:
    lines = journal.timings.read_text().splitlines()
    lines[1] = f'{{"round":2,"seconds":{{"m_step":{seconds}}},"processor_seconds":{{}}}}'
    journal.timings.write_text("\n".join(lines) + "\n")
    assert read_spent(tmp_path) == []
