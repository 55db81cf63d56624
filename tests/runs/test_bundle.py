import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from federico.data.from_python import dataset_from_clients
from federico.errors import ConfigError, DataError, RunError
from federico.experiment.build import prepare
from federico.runs import checkpoint
from federico.runs.bundle import (
    MODELS_FILE,
    Bundle,
    file_name,
    folder_name,
    open_folder,
    replace_folder,
)
from federico.runs.client_models import open_client
from federico.runs.layout import CellDir, RunDir
from federico.types import Array
from tests.support.spoilt_models import infinite_away_from_zero, never_a_number, replaced

Play = Callable[..., tuple[RunDir, Any]]

ODD_NAMES = ["St. Mary/East <b>", "..", ".hidden", "Ospedale è 100%", "[/b] a:b", "x" * 300]


def inputs(rows: int = 7, width: int = 64) -> Array:
    return np.random.default_rng(3).random((rows, width)).astype(np.float32)


@pytest.fixture
def bundle(finished: RunDir) -> Bundle:
    return open_client(finished.cell("federico", 0), "0")


@pytest.fixture
def movable(bundle: Bundle, tmp_path: Path) -> Path:
    """A client's own folder, far from its run."""
    bundle.save(tmp_path / "saved")
    return shutil.move(tmp_path / "saved", tmp_path / "elsewhere")


def by_hand(bank: Mapping[str, torch.Tensor], bundle: Bundle, x: Array) -> Array:
    """sum_j w_j softmax((W2 relu(W1 x + b1) + b2) / T + log w), from the checkpoint's rows."""
    mixed = np.zeros((len(x), 10))
    calibration = bundle.header.calibration
    assert calibration is not None
    for k, (owner, weight) in enumerate(bundle.posterior.items()):
        place = int(owner.removesuffix(" (alone)"))
        if owner.endswith(" (alone)"):
            place += 4  # the private models come after those of the four clients
        row = bank["bank.rows"][place].double().numpy()
        cuts = np.cumsum([8 * 64, 8, 10 * 8])
        w1, b1, w2, b2 = np.split(row, cuts)
        hidden = np.maximum(x @ w1.reshape(8, 64).T + b1, 0)
        logits = hidden @ w2.reshape(10, 8).T + b2
        logits = logits / calibration.temperatures[k] + calibration.offsets[k]
        powers = np.exp(logits - logits.max(1, keepdims=True))
        mixed += weight * powers / powers.sum(1, keepdims=True)
    return mixed


@pytest.mark.parametrize("client", ["0", "1", "2", "3"])
def test_prediction_is_the_mixture_of_the_banks_models(finished: RunDir, client: str) -> None:
    cell = finished.cell("federico", 0)
    bundle = open_client(cell, client)
    saved = checkpoint.load_latest(cell.path / "checkpoint", pytest.fail)
    assert saved is not None
    assert len(bundle.posterior) > 1, "the mixture is one"
    x = inputs()
    np.testing.assert_allclose(bundle.probabilities(x), by_hand(saved.state, bundle, x), atol=1e-6)


def test_everything_in_a_folder_can_be_read_by_the_same_people(movable: Path) -> None:
    modes = {file.stat().st_mode for file in movable.iterdir()}
    assert len(modes) == 1


def test_posterior_is_of_models_that_the_last_record_trusts(finished: RunDir) -> None:
    cell = finished.cell("federico", 0)
    last = cell.records[-1]
    assert last.together_share is not None
    for name, recorded, share in zip(
        cell.description.clients, last.posterior, last.together_share, strict=True
    ):
        posterior = open_client(cell, name).posterior
        assert sum(posterior.values()) == pytest.approx(1, abs=1e-12)
        trusted = {peer for peer, weight in recorded.items() if weight >= 1e-4}
        alone = f"{name} (alone)"
        assert posterior.keys() <= {*trusted, name, alone}
        assert posterior.get(alone, 0) == pytest.approx(1 - share, rel=1e-3)
        # Models were judged again, and no other one weighs more than half of the mixture.
        others = posterior.keys() - {name, alone}
        assert all(posterior[peer] <= 1.001 * share / 2 for peer in others)


def test_collaborators_are_others_by_weight(bundle: Bundle) -> None:
    ranked = bundle.collaborators(0)
    others = bundle.posterior.keys() - {"0", "0 (alone)"}
    assert set(ranked) == others
    assert [bundle.posterior[name] for name in ranked] == sorted(
        (bundle.posterior[name] for name in others), reverse=True
    )
    assert bundle.collaborators(at_least=1.1) == []


def test_global_model_belongs_to_nobody(finished: RunDir) -> None:
    shared = open_client(finished.cell("fedavg", 0), "2")
    assert shared.posterior == {"global": 1.0}
    assert shared.header.method == "fedavg"


def test_moved_folder_predicts_the_same(bundle: Bundle, movable: Path) -> None:
    x = inputs()
    there = open_folder(movable)
    np.testing.assert_array_equal(there.probabilities(x), bundle.probabilities(x))
    assert there.predict(x).tolist() == bundle.predict(x).tolist()
    assert there.header == bundle.header


def test_probabilities_sum_to_one_and_labels_are_the_likeliest(bundle: Bundle) -> None:
    found = bundle.probabilities(inputs(600))
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    assert bundle.predict(inputs(600)).tolist() == found.argmax(1).tolist()


def test_inputs_of_another_shape_are_refused(bundle: Bundle) -> None:
    with pytest.raises(DataError, match=r"inputs of shape \(63,\), where the model takes \(64,\)"):
        bundle.probabilities(inputs(width=63))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize(
    "damage", [flip, cut, lambda path: path.write_bytes(b"")], ids=["flip", "cut", "empty"]
)
def test_damaged_models_are_not_predicted_with(
    movable: Path, damage: Callable[[Path], None]
) -> None:
    damage(movable / MODELS_FILE)
    with pytest.raises(RunError, match=r"models\.safetensors: damaged .* delete done\.json"):
        open_folder(movable).probabilities(inputs())


def test_models_that_are_gone_are_named(movable: Path) -> None:
    (movable / MODELS_FILE).unlink()
    with pytest.raises(RunError, match=r"models\.safetensors: cannot be read: No such file"):
        open_folder(movable).probabilities(inputs())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"client": "a"}', '{"format": 1, "weights": "x"}']
)
def test_header_that_is_none_is_named(movable: Path, text: str) -> None:
    (movable / "bundle.json").write_text(text)
    with pytest.raises(RunError, match=r"bundle\.json: not a client's bundle"):
        open_folder(movable)


def test_folder_without_header_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"bundle\.json: cannot be read"):
        open_folder(tmp_path)


def predict_for_all(cell: CellDir) -> None:
    """Somebody uses each of the models that are stored."""
    for name in cell.description.clients:
        open_client(cell, name).probabilities(inputs())


def test_damaged_models_come_back_from_the_checkpoint_as_the_message_says(play: Play) -> None:
    run, _ = play()
    cell = run.cell("federico", 0)
    file = cell.path / "clients" / MODELS_FILE
    whole = file.read_bytes()
    flip(file)
    with pytest.raises(RunError, match=r"models\.safetensors: damaged .* delete done\.json"):
        predict_for_all(cell)
    (cell.path / "done.json").unlink()
    _, told = play()
    assert told.rounds == [], "no round was played again"
    assert file.read_bytes() == whole


def test_any_client_name_has_a_folder_of_its_own(play: Play) -> None:
    rng = np.random.default_rng(0)
    people = {name: (rng.normal(size=(8, 3)), np.arange(8) % 2) for name in ODD_NAMES}
    chosen = {"partition": {"kind": "natural"}, "split": {}, "federico": {"neighbors": 2}}
    run, _ = play(dataset=dataset_from_clients(people), **chosen)
    cell = run.cell("federico", 0)
    assert sorted(cell.description.clients) == sorted(ODD_NAMES)
    for name in ODD_NAMES:
        bundle = open_client(cell, name)
        assert bundle.header.client == name
        assert set(bundle.posterior) <= {*ODD_NAMES, f"{name} (alone)"}
        assert bundle.probabilities(people[name][0]).shape == (8, 2)


@pytest.mark.parametrize("name", [*ODD_NAMES, "", ".", "a\0b", "plain"])
def test_folder_name_is_one_step_below(name: str, tmp_path: Path) -> None:
    folder = tmp_path / folder_name(name)
    folder.mkdir()
    assert folder.resolve().parent == tmp_path.resolve()


@pytest.mark.parametrize("name", [*ODD_NAMES, "", ".", "..", "a\0b", "x" * 301, "Köln"])
def test_file_name_is_one_step_below(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{file_name(name)}.onnx"
    file.touch()
    assert file.resolve().parent == tmp_path.resolve()


def test_a_file_is_called_as_its_client_where_that_can_be() -> None:
    for name in ("Köln", "St. Mary", "3", "北"):
        assert file_name(name) == name
    for name in ("a/b", "a:b", "..", "a\nb", "%2E", "a\u202eb"):
        assert file_name(name) == folder_name(name)


def test_folder_names_are_distinct() -> None:
    names = [*ODD_NAMES, "", ".", "%2E", "%2E%2E", "x" * 301, "St. Mary%2FEast <b>"]
    assert len({folder_name(name) for name in names}) == len(names)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hospitals in one CSV file with a gap and a choice; the second measures in other units."""
    rng = np.random.default_rng(1)
    lines = ["site,age,kind,sick"]
    for site, scale in (("north", 1.0), ("south", 100.0)):
        for row in range(20):
            age = scale * rng.normal(50, 10)
            shown = "" if row == 4 else round(age, 3)
            lines.append(f"{site},{shown},{'ab'[row % 2]},{int(age > 50 * scale)}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path))
    return tmp_path / "people.csv"


def test_table_is_scaled_as_its_owner_scaled_it(table: Path, play: Play) -> None:
    data = {
        "kind": "table",
        "path": "people.csv",
        "label": "sick",
        "client": "site",
        "categorical": ["kind"],
    }
    changes: dict[str, Any] = {
        "data": data, "partition": {"kind": "natural"}, "split": {}, "federico": {"neighbors": 1},
        "model": {"kind": "linear"},
    }  # fmt: skip
    run, _ = play(**changes)
    bundle = open_client(run.cell("federico", 0), "south")
    fitted = bundle.header.standardizer
    assert fitted is not None
    assert fitted.mean[0] > 1000, "fitted on the south alone"
    x = bundle.read(table)
    assert x.shape == (40, 2)
    assert np.isnan(x[4, 0]), "gaps are filled when predicting, not before"
    encoded = np.column_stack([x[:, 0], x[:, 1] == 0, x[:, 1] == 1])
    inputs = torch.from_numpy(fitted(encoded)).float()
    by_hand = torch.zeros(40, 2)
    personal = bundle.module()
    for model, weight, t, offset in zip(
        personal.models, personal.weights, personal.temperatures, personal.offsets, strict=True
    ):
        by_hand = by_hand + weight * torch.softmax(model(inputs).double() / t + offset, 1)
    np.testing.assert_allclose(bundle.probabilities(x), by_hand.detach(), atol=1e-12)
    assert np.isfinite(bundle.probabilities(x)).all()
    assert set(bundle.predict(x)) <= {0, 1}


def test_regression_predicts_values(play: Play) -> None:
    data = {"kind": "sine", "clients": 4, "samples_per_client": 10}
    run, _ = play(data=data, partition={"kind": "natural"}, split={}, model={"kind": "linear"})
    bundle = open_client(run.cell("federico", 0), "1")
    values = bundle.predict(np.zeros((3, 1)))
    assert values.shape == (3, 1)
    np.testing.assert_array_equal(values, bundle.probabilities(np.zeros((3, 1))))


def test_model_made_in_python_has_to_be_brought_along(play: Play) -> None:
    def net() -> nn.Module:
        return nn.Linear(64, 10)

    run, _ = play(model={"kind": "python"}, factory=net)
    cell = run.cell("federico", 0)
    with pytest.raises(ConfigError, match=r"federico\.load\(run, model=\.\.\.\)"):
        open_client(cell, "0").probabilities(inputs())
    assert open_client(cell, "0", net).probabilities(inputs()).shape == (7, 10)
    with pytest.raises(ConfigError, match="the stored tensors"):
        open_client(cell, "0", lambda: nn.Linear(64, 10, bias=False)).probabilities(inputs())


def test_setup_and_bundle_agree_on_the_test_score(
    finished: RunDir, tiny: Callable[..., Any]
) -> None:
    cell = finished.cell("federico", 0)
    figures = cell.records[-1].figures
    assert figures is not None
    for client, recorded in zip(prepare(tiny(), 0).clients, figures["accuracy"], strict=True):
        bundle = open_client(cell, client.id)
        hits = bundle.probabilities(client.test.x).argmax(1) == client.test.y
        assert hits.mean() == pytest.approx(recorded)


def test_header_is_plain_json(movable: Path) -> None:
    raw = json.loads((movable / "bundle.json").read_text(encoding="utf-8"))
    assert raw["format"] == 1
    assert raw["schema"]["label_names"] == [str(digit) for digit in range(10)]


def test_old_models_stay_until_the_new_ones_are_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, folder = tmp_path / "clients.partial", tmp_path / "clients"
    for place in (new, folder):
        place.mkdir()
        (place / "model").write_text(place.name)
    present: list[bool] = []
    monkeypatch.setattr(
        shutil, "rmtree", lambda path, **_: present.append((folder / "model").exists())
    )
    replace_folder(new, folder)
    assert present == [True, True], "nothing is removed while no models are in place"
    assert (folder / "model").read_text() == "clients.partial"


def test_all_clients_share_two_files(finished: RunDir) -> None:
    folder = finished.cell("federico", 0).path / "clients"
    assert {path.name for path in folder.iterdir()} == {"index.json", "models.safetensors"}


def test_a_model_that_nobody_uses_may_be_damaged_without_harm(play: Play) -> None:
    run, _ = play(methods=["local"])
    cell = run.cell("local", 0)
    flip(cell.path / "clients" / MODELS_FILE)  # the last number of the last model
    assert open_client(cell, "0").probabilities(inputs()).shape == (7, 10)
    with pytest.raises(RunError, match="damaged"):
        open_client(cell, "3").probabilities(inputs())


def test_a_saved_folder_replaces_an_earlier_one_on_request_only(
    bundle: Bundle, movable: Path
) -> None:
    (movable / "bundle.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"holds a personal model already.*overwrite=True"):
        bundle.save(movable)
    assert (movable / "bundle.json").read_text() == "{}"
    bundle.save(movable, overwrite=True)
    assert open_folder(movable).header == bundle.header
    assert not list(movable.parent.glob("*.partial"))


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_but_a_personal_model_is_ever_replaced(
    bundle: Bundle, movable: Path, tmp_path: Path, overwrite: bool
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    (movable / "notes.txt").write_text("beside the model")
    for folder in (tmp_path / "precious", movable):
        with pytest.raises(ConfigError, match="holds something else than a personal model"):
            bundle.save(folder, overwrite=overwrite)
    with pytest.raises(ConfigError, match="is a file"):
        bundle.save(movable / "notes.txt", overwrite=overwrite)
    with pytest.raises(ConfigError, match="is a folder, and is left as it is"):
        bundle.export(tmp_path / "precious", overwrite=overwrite)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"
    assert (movable / "notes.txt").read_text() == "beside the model"

    (tmp_path / "empty").mkdir()
    bundle.save(tmp_path / "empty")
    assert open_folder(tmp_path / "empty").header == bundle.header


def test_a_sample_without_an_answer_has_no_class(finished: RunDir, tmp_path: Path) -> None:
    spoilt = open_folder(replaced(finished.path, "0", tmp_path / "some", infinite_away_from_zero))
    x = np.zeros((3, 64))
    x[1] = 1.0
    with pytest.warns(UserWarning, match="1 of 3 rows have no prediction"):
        predicted = spoilt.predict(x)
    assert predicted[1] == -1
    assert (predicted[[0, 2]] >= 0).all()

    broken = open_folder(replaced(finished.path, "0", tmp_path / "all", never_a_number))
    with pytest.raises(RunError, match="none of its models has a finite answer"):
        broken.predict(x)


def test_a_mixture_is_distilled_from_the_samples_it_has_an_answer_for(
    finished: RunDir, tmp_path: Path
) -> None:
    spoilt = open_folder(replaced(finished.path, "0", tmp_path / "some", infinite_away_from_zero))
    x = np.zeros((20, 64))
    x[3] = 1.0
    with pytest.warns(UserWarning, match="1 of 20 rows have no prediction"):
        distilled = spoilt.distill(x, np.zeros(20, dtype=int), epochs=1)
    assert distilled.distillation is not None
    assert np.isfinite(distilled.distillation.difference)


@pytest.mark.parametrize("hidden", [[10**9, 10**9], [10**18], [9]])
def test_a_header_that_describes_a_larger_model_is_refused_before_it_is_made(
    finished: RunDir, movable: Path, hidden: list[int]
) -> None:
    header = json.loads((movable / "bundle.json").read_text())
    header["model"]["hidden"] = hidden
    (movable / "bundle.json").write_text(json.dumps(header))
    with pytest.raises(RunError, match=r"model: (as the bundle describes|it cannot be made)"):
        open_folder(movable).predict(inputs())

    index_file = finished.cell("federico", 0).path / "clients" / "index.json"
    before = index_file.read_text()
    index = json.loads(before)
    index["common"]["model"]["hidden"] = hidden
    index_file.write_text(json.dumps(index))
    try:
        with pytest.raises(RunError, match=r"model: (as the bundle describes|it cannot be made)"):
            open_client(finished.cell("federico", 0), "0").predict(inputs())
    finally:
        index_file.write_text(before)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("weights", [float("nan")]),
        ("weights", [-1.0]),
        ("temperatures", [0.0]),
        ("temperatures", [float("inf")]),
        ("offsets", [[float("inf")] * 10]),
        ("offsets", [[0.0]]),
    ],
)
def test_numbers_that_make_no_mixture_are_refused(movable: Path, part: str, value: object) -> None:
    header = json.loads((movable / "bundle.json").read_text())
    header[part] = value * len(header["owners"])
    (movable / "bundle.json").write_text(json.dumps(header))
    with pytest.raises(RunError, match=f"not a client's bundle: .*{part}"):
        open_folder(movable)
