import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from federico.errors import RunError
from federico.report.old.summary import Summary, effective, on_friends, summarize, true_groups
from federico.runs.layout import Description, RunDir


def summary(path: Path) -> Summary:
    return summarize(RunDir(path))


def test_a_folder_that_is_no_run_is_refused_with_its_name_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"{tmp_path}: not a run directory.*`federico run`"):
        summary(tmp_path)


def test_mean_deviation_and_paired_difference(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    for seed, ours, theirs in ((0, 0.9, 0.7), (1, 0.7, 0.8), (2, 0.8, 0.6)):
        write_cell({"accuracy": [ours] * 3}, seed=seed)
        write_cell({"accuracy": [theirs] * 3}, method="local", seed=seed)
    federico, local = summary(tmp_path).methods
    assert federico.mean == pytest.approx(0.8)
    assert federico.sd == pytest.approx(0.1)
    assert federico.by_seed == pytest.approx({0: 0.9, 1: 0.7, 2: 0.8})
    assert federico.versus_local is not None
    assert federico.versus_local.difference == pytest.approx((0.2 - 0.1 + 0.2) / 3)
    assert (federico.versus_local.better, federico.versus_local.runs) == (2, 3)
    assert local.versus_local is None


def test_only_seeds_that_local_has_too_are_compared(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({"accuracy": [0.9] * 3}, seed=0)
    write_cell({"accuracy": [0.1] * 3}, seed=1)
    write_cell({"accuracy": [0.5] * 3}, method="local", seed=0)
    versus = summary(tmp_path).methods[0].versus_local
    assert versus is not None
    assert versus.difference == pytest.approx(0.4)
    assert versus.runs == 1


def test_one_seed_has_no_deviation(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({"accuracy": [0.5, 0.5, 0.5]})
    assert summary(tmp_path).methods[0].sd is None


def test_clients_are_averaged_over_seeds_by_name(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({"accuracy": [0.2, 0.4, 0.6]}, seed=0)
    write_cell({"accuracy": [0.8, 0.6, 0.4]}, seed=1, clients=["c", "b", "a"])
    assert summary(tmp_path).methods[0].by_client == pytest.approx({"a": 0.3, "b": 0.5, "c": 0.7})


def test_curves_have_mean_and_deviation_at_each_evaluated_round(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({}, {"accuracy": [0.4] * 3}, {"accuracy": [0.5] * 3}, seed=0)
    write_cell({}, {"accuracy": [0.6] * 3}, seed=1, finished=False)
    curve = summary(tmp_path).methods[0].curve
    assert curve.rounds == [2, 3]
    assert curve.mean == pytest.approx([0.5, 0.5])
    assert curve.sd == pytest.approx([math.sqrt(0.02), 0])


def test_bytes_and_seconds_are_those_of_one_run(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    moved = {"moved": 66}
    write_cell(dict(**moved), dict(**moved), seed=0)
    write_cell({}, dict(**moved), seed=1)
    method = summary(tmp_path).methods[0]
    assert method.bytes_by_round == [33, 66]
    assert method.bytes_moved == 99
    assert method.seconds == 2


def test_the_order_is_federico_local_then_the_rest_then_the_unknown(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    for method in ("fedavg", "zeta", "local", "federico"):
        write_cell({}, method=method)
    found = summary(tmp_path).methods
    assert [method.name for method in found] == ["federico", "local", "fedavg", "zeta"]
    assert [method.title for method in found] == ["FedeRiCo", "Local", "FedAvg", "zeta"]


def test_trust_on_true_friends_counts_oneself(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    posterior = [{"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.25, "c": 0.5}, {"c": 1.0}]
    write_cell({"posterior": posterior})
    trust = summary(tmp_path).methods[0].trust
    assert trust is not None
    assert trust.on_friends == pytest.approx((1 + 0.5 + 1) / 3)
    assert trust.collaborators == pytest.approx((2 + 1 / 0.375 + 1) / 3)


def test_a_posterior_over_nobody_counts_no_model() -> None:
    assert effective({}) == 0


@pytest.mark.parametrize("groups", [None, [0, 1, 2], [4, 4, 4]])
def test_groups_that_group_nobody_are_no_groups(
    description: Description, groups: list[int] | None
) -> None:
    description = replace(description, distribution=groups)
    assert true_groups(description) is None
    assert on_friends(description, [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]) is None


def test_an_unfinished_run_shows_its_last_evaluation_and_what_is_missing(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    (tmp_path / "config.toml").write_text(
        'methods = ["federico", "local"]\nseeds = [0, 1]\nrounds = 3\n'
    )
    write_cell({"accuracy": [0.3] * 3}, {}, finished=False)
    write_cell(*({"accuracy": [0.2 * i] * 3} for i in (1, 2, 3)), method="local")
    found = summary(tmp_path)
    federico = found.methods[0]
    assert federico.mean == pytest.approx(0.3)
    assert federico.versus_local is not None
    assert federico.versus_local.difference == pytest.approx(0.1), (
        "compared at round 1, the last that both have"
    )
    assert [(cell.title, cell.seed, cell.round) for cell in found.pending] == [
        ("FedeRiCo", 0, 2),
        ("FedeRiCo", 1, 0),
        ("Local", 1, 0),
    ]


def test_a_run_continued_for_more_rounds_is_unfinished(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    (tmp_path / "config.toml").write_text('methods = ["federico"]\nseeds = [0]\nrounds = 9\n')
    write_cell({})
    assert [cell.round for cell in summary(tmp_path).pending] == [1]


def test_a_run_without_evaluations_has_no_best(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({}, finished=False)
    found = summary(tmp_path)
    assert found.methods[0].mean is None
    assert found.best is None


def test_regression_is_judged_by_the_error_and_lower_is_best(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    plain = {"task": "regression", "label_names": [], "label_counts": []}
    write_cell({"loss": [0.1, 0.2, 0.3]}, **plain)
    write_cell({"loss": [0.2, 0.3, 0.4]}, method="local", **plain)
    write_cell({"loss": [0.1, None, 0.1]}, method="fedavg", **plain)
    found = summary(tmp_path)
    federico, _, fedavg = found.methods
    assert federico.mean == pytest.approx((8 * 0.1 + 6 * 0.2 + 6 * 0.3) / 20)
    assert federico.versus_local is not None
    assert federico.versus_local.difference == pytest.approx(-0.1)
    assert federico.versus_local.better == 1
    assert found.best is federico
    assert fedavg.mean == math.inf


def test_an_unreadable_config_is_named(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({})
    (tmp_path / "config.toml").write_text("rounds = = 3")
    with pytest.raises(RunError, match=r"config\.toml: cannot be read"):
        summary(tmp_path)


def test_seeds_with_other_data_are_told_apart(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({}, seed=0)
    assert summary(tmp_path).same_partition
    write_cell({}, seed=1, partition_hash="p1")
    assert not summary(tmp_path).same_partition


def test_a_real_run(simulated: Path) -> None:
    found = summary(simulated)
    assert found.rounds == 3
    assert found.seeds == [0, 1]
    assert found.pending == []
    assert [len(method.curve.rounds) for method in found.methods] == [3, 3, 3]
    federico, local, fedavg = found.methods
    assert local.bytes_moved == 0 < fedavg.bytes_moved
    assert federico.trust is not None
    assert federico.trust.on_friends is not None
    assert 0 < federico.trust.on_friends <= 1 + 1e-9
