import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from benchmarks.same_numbers import compare_cells


def cell(folder: Path, *, row: list[float], posterior: float, more: str = "") -> Path:
    (folder / "checkpoint").mkdir(parents=True)
    save_file({"bank.rows": np.array(row)}, folder / "checkpoint" / "round-000001-0.safetensors")
    record = {"round": 1, "posterior": [{"a": posterior}]}
    if more:
        record[more] = 1
    (folder / "records.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def test_equal_cells_are_equal_and_all_is_compared(tmp_path: Path) -> None:
    before = cell(tmp_path / "before", row=[1.0, np.nan], posterior=0.5)
    after = cell(tmp_path / "after", row=[1.0, np.nan], posterior=0.5)
    found = compare_cells(before, after)
    assert found.numbers == 3, "the round, its posterior and the models"
    assert found.different == []


def test_the_last_bit_of_a_model_or_a_posterior_is_a_difference(tmp_path: Path) -> None:
    before = cell(tmp_path / "before", row=[1.0], posterior=0.5)
    after = cell(
        tmp_path / "after", row=[np.nextafter(1.0, 2.0)], posterior=float(np.nextafter(0.5, 1.0))
    )
    found = compare_cells(before, after)
    assert found.different == ["round 1: posterior", "checkpoint: bank.rows"]


def test_what_only_one_tree_writes_is_named(tmp_path: Path) -> None:
    before = cell(tmp_path / "before", row=[1.0], posterior=0.5)
    after = cell(tmp_path / "after", row=[1.0], posterior=0.5, more="epsilon")
    found = compare_cells(before, after)
    assert found.only_after == {"epsilon"}
    assert found.different == []


def test_names_that_have_changed_are_the_same_numbers(tmp_path: Path) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    for folder, name in ((before, "losses"), (after, "state.losses")):
        (folder / "checkpoint").mkdir(parents=True)
        save_file({name: np.array([2.0])}, folder / "checkpoint" / "round-000001-0.safetensors")
    (before / "records.jsonl").write_text(json.dumps({"round": 1, "accuracy": [0.5]}) + "\n")
    figures = {"accuracy": [0.25]}
    (after / "records.jsonl").write_text(json.dumps({"round": 1, "figures": figures}) + "\n")
    found = compare_cells(before, after)
    assert found.different == ["round 1: accuracy"]
    assert found.numbers == 2
    assert found.only_before | found.only_after == set()


def test_the_models_of_every_client_are_compared(tmp_path: Path) -> None:
    folders = [cell(tmp_path / label, row=[1.0], posterior=0.5) for label in ("before", "after")]
    for folder, changed in zip(folders, (0.0, 1.0), strict=True):
        for client in ("a", "b"):
            (folder / "clients" / client).mkdir(parents=True)
            model = {"weight": np.array([changed if client == "a" else 0.0])}
            save_file(model, folder / "clients" / client / "models.safetensors")
    found = compare_cells(*folders)
    assert found.different == ["clients/a/models.safetensors: weight"]
