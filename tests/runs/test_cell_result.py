from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federico.runs.cell_result import cell_result
from federico.runs.layout import CellDir, RunDir
from federico.runs.metric import ACCURACY
from federico.runs.results import append_result, read_results
from tests.support.run_folders import write_cell

Play = Callable[..., tuple[RunDir, Any]]


@pytest.fixture
def cell(finished: RunDir) -> CellDir:
    return finished.cell("federico", 0)


def test_a_result_holds_every_figure_of_the_records(cell: CellDir) -> None:
    result = cell_result(cell)
    records = cell.records
    assert (result.method, result.seed, result.rounds) == ("federico", 0, 2)
    assert result.evaluated == [1, 2]
    assert result.figures.keys() == {
        "accuracy", "loss", "auroc", "macro_f1", "calibration_error"
    }  # fmt: skip
    for place, record in enumerate(records):
        assert result.figures_at(place) == record.figures
    assert result.bytes_by_round == [record.moved for record in records]
    sizes = np.add(result.train_samples, result.test_samples)
    mean = np.average(result.figures["accuracy"][-1], weights=sizes)
    assert mean == ACCURACY.mean(records[-1].figures or {}, sizes.tolist())


def test_seconds_of_the_method_leave_out_evaluation_and_checkpoints(cell: CellDir) -> None:
    result = cell_result(cell)
    assert {"evaluate", "checkpoint", "m_step"} <= result.wall_seconds.keys()
    for seconds, spent in zip(result.processor_seconds_by_round, cell.spent, strict=True):
        left_out = spent.processor_seconds["evaluate"] + spent.processor_seconds["checkpoint"]
        assert seconds == pytest.approx(sum(spent.processor_seconds.values()) - left_out)


def test_trust_is_read_off_the_last_posterior(cell: CellDir) -> None:
    result = cell_result(cell)
    about = cell.description
    groups = dict(zip(about.clients, about.distribution or [], strict=True))
    shares = []
    counts = []
    for client, row in zip(about.clients, cell.records[-1].posterior, strict=True):
        shares.append(sum(w for peer, w in row.items() if groups[peer] == groups[client]))
        counts.append(1 / sum(w**2 for w in row.values()))
    assert result.on_own_distribution == pytest.approx(np.mean(shares))
    assert result.effective_collaborators == pytest.approx(np.mean(counts))


def test_a_method_without_posteriors_has_no_trust(finished: RunDir) -> None:
    result = cell_result(finished.cell("fedavg", 0))
    assert result.on_own_distribution is None
    assert result.effective_collaborators is None


def test_rounds_that_were_not_evaluated_have_bytes_and_no_figures(play: Play) -> None:
    run, _ = play(rounds=3, system={"evaluate_every": 2})
    result = cell_result(run.cell("federico", 0))
    assert result.evaluated == [2, 3]
    assert len(result.figures["accuracy"]) == 2
    assert len(result.bytes_by_round) == 3


def test_alone_and_together_are_kept_of_the_last_evaluated_round_only(tmp_path: Path) -> None:
    def evaluated(alone: float, share: float) -> dict[str, Any]:
        return {
            "figures": {"accuracy": [0.8] * 3},
            "alone": {"accuracy": [alone] * 3, "loss": [1.0] * 3},
            "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
            "together_share": [share] * 3,
            "together_chance": [None, 0.5, share],
        }

    quiet = {"together_share": [0.1] * 3}
    cell = write_cell(
        tmp_path, "federico", evaluated(0.5, 0.2), evaluated(0.6, 0.7), quiet, finished=False
    )
    comparisons = cell_result(cell).comparisons
    assert comparisons is not None
    assert comparisons.alone["accuracy"] == [0.6] * 3
    assert comparisons.together["accuracy"] == [0.9] * 3
    assert comparisons.used["accuracy"] == [0.8] * 3
    assert comparisons.together_share == [0.7] * 3
    assert comparisons.together_chance == [None, 0.5, 0.7]


def test_records_of_older_versions_do_not_say_how_sure_clients_are(tmp_path: Path) -> None:
    said = {
        "figures": {"accuracy": [0.8] * 3, "loss": [1.0] * 3},
        "alone": {"accuracy": [0.6] * 3, "loss": [1.0] * 3},
        "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
        "together_share": [0.7] * 3,
    }
    cell = write_cell(tmp_path, "federico", said, finished=False)
    comparisons = cell_result(cell).comparisons
    assert comparisons is not None
    assert comparisons.together_chance is None
    assert comparisons.of(1).together_chance is None
    assert cell.records[-1].comparisons == comparisons


def test_a_run_knows_what_its_clients_would_be_alone(finished: RunDir) -> None:
    cell = finished.cell("federico", 0)
    assert cell_result(cell).comparisons == cell.records[-1].comparisons
    assert cell_result(cell).comparisons is not None
    assert cell_result(finished.cell("fedavg", 0)).comparisons is None


def test_the_line_comes_back_as_it_was_written(cell: CellDir, tmp_path: Path) -> None:
    result = cell_result(cell)
    append_result(tmp_path, result)
    assert read_results(tmp_path) == ([result], [])


def test_with_thousands_of_clients_a_result_holds_the_figures_of_some_rounds(
    tmp_path: Path,
) -> None:
    clients = 20_000
    rounds = []
    for number in range(1, 26):
        rounds.append({"figures": {"accuracy": [number / 100] * clients}, "moved": number})
    about = {
        "clients": [str(client) for client in range(clients)],
        "distribution": None,
        "train_samples": [1] * clients,
        "test_samples": [1] * clients,
    }
    shorter = cell_result(write_cell(tmp_path / "shorter", "local", *rounds[:14], **about))
    longer = cell_result(write_cell(tmp_path / "longer", "local", *rounds, **about))

    assert longer.bytes_by_round == list(range(1, 26)), "bytes are summed up over all rounds"
    for result in (shorter, longer):
        assert [values[0] for values in result.figures["accuracy"]] == [
            number / 100 for number in result.evaluated
        ]
        assert (result.evaluated[0], result.evaluated[-1]) == (1, result.rounds)
        assert len(result.evaluated) * clients <= 200_000
    up_to_there = {number for number in longer.evaluated if number <= 14}
    assert up_to_there <= set(shorter.evaluated)
    assert max(up_to_there) >= 8
