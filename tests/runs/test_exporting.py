"""One personal model by `.predict`, as a module, as a torch program and in onnxruntime."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import federico
from federico.errors import ConfigError
from federico.learning.layout import ModelLayout
from federico.learning.models import perceptron
from federico.runs.bundle import Bundle
from federico.types import Array

SMALL: dict[str, Any] = {"rounds": 2, "system": {"threads": 1}, "methods": ["federico"]}


def normed_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    )


def digits(folder: Path) -> tuple[Bundle, Array]:
    run = federico.run(
        directory=folder, split={"samples": 200}, model=lambda: perceptron((64, 8, 10)),
        partition={"kind": "label-groups", "clients": 4, "groups": 2}, **SMALL,
    )  # fmt: skip
    return run.client("0"), np.random.default_rng(0).random((5, 64)).astype(np.float32)


def images(folder: Path) -> tuple[Bundle, Array]:
    rng = np.random.default_rng(1)
    clients = {
        name: (rng.integers(0, 256, (20, 1, 8, 8), dtype=np.uint8), np.arange(20) % 3)
        for name in "ab"
    }
    run = federico.run(
        clients=clients, model=normed_cnn, directory=folder, federico={"neighbors": 1}, **SMALL
    )
    return run.client("a"), rng.integers(0, 256, (5, 1, 8, 8), dtype=np.uint8)


def table(folder: Path) -> tuple[Bundle, Array]:
    rng = np.random.default_rng(2)
    lines = ["patient,site,age,kind,sick"]
    for row in range(40):
        age = "" if row % 7 == 0 else f"{rng.normal(50, 10):.3f}"
        kind = "" if row % 9 == 0 else "abc"[row % 3]
        lines.append(f"P{row},{'ns'[row % 2]},{age},{kind},{['no', 'yes'][row % 5 < 2]}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    data = {
        "kind": "table", "path": str(folder / "people.csv"), "label": "sick", "client": "site",
        "categorical": ["kind"], "id": ["patient"],
    }  # fmt: skip
    run = federico.run(
        directory=folder, data=data, partition={"kind": "natural"}, federico={"neighbors": 1},
        model=lambda: perceptron((4, 2)), **SMALL,
    )  # fmt: skip
    client = run.client("n")
    return client, client.read(folder / "people.csv")


def regression(folder: Path) -> tuple[Bundle, Array]:
    run = federico.run(
        directory=folder, data={"kind": "sine", "clients": 4, "samples_per_client": 24},
        partition={"kind": "natural"}, model=lambda: perceptron((1, 8, 1)), **SMALL,
    )  # fmt: skip
    return run.client("1"), np.linspace(0, 6, 5, dtype=np.float32)[:, None]


@pytest.mark.parametrize("make", [digits, images, table, regression])
def test_every_way_out_gives_what_predict_gives(make: Any, tmp_path: Path) -> None:
    client, x = make(tmp_path)
    expected = client.probabilities(x)
    assert len(client.posterior) > 1, "the mixture is one"

    with torch.no_grad():
        np.testing.assert_allclose(client.module()(torch.from_numpy(x)), expected, atol=1e-12)

    client.export(tmp_path / "m.pt2")
    program = torch.export.load(io.BytesIO((tmp_path / "m.pt2").read_bytes())).module()
    with torch.no_grad():
        np.testing.assert_allclose(program(torch.from_numpy(x)), expected, atol=1e-5)
        np.testing.assert_allclose(program(torch.from_numpy(x[:2])), expected[:2], atol=1e-5)

    client.export(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for rows in (1, 2, len(x)):
        (found,) = session.run(None, {"x": x[:rows]})
        np.testing.assert_allclose(found, expected[:rows], atol=1e-5)
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["labels"]) == list(client.header.schema.label_names)
    names = [column["name"] for column in json.loads(about["columns"])]
    assert names == [column.name for column in client.header.schema.columns]

    client.export(tmp_path / "m.safetensors")
    stored = load_file(tmp_path / "m.safetensors")
    for name, tensor in client.module().state_dict().items():
        assert torch.equal(stored[name], tensor)


def breaks_for_bright_first_pixels(layout: ModelLayout, row: torch.Tensor) -> torch.Tensor:
    """The same model as long as the first pixel is 0; else its numbers overflow."""
    broken = row.clone()
    first_layer = broken[:512].view(8, 64)  # of perceptron((64, 8, 10))
    first_layer[:, 0] = torch.finfo(layout.dtype).max
    return broken


def test_a_model_that_breaks_for_some_rows_is_left_out_of_these_everywhere(
    tmp_path: Path,
) -> None:
    whole, x = digits(tmp_path)
    heaviest = int(np.argmax(whole.header.weights))
    whole_models = list(whole.module().models)

    def with_a_broken_one(layout: ModelLayout) -> list[torch.Tensor]:
        rows = []
        for place, model in enumerate(whole_models):
            row = nn.utils.parameters_to_vector(model.parameters()).detach()
            if place == heaviest:
                row = breaks_for_bright_first_pixels(layout, row)
            rows.append(row)
        return rows

    client = Bundle(whole.header, with_a_broken_one, lambda: perceptron((64, 8, 10)))
    x[:3, 0] = 0
    x[3:, 0] = 200
    personal = whole.module()
    weights = personal.weights.clone()
    weights[heaviest] = 0
    personal.weights = weights / weights.sum()
    with torch.no_grad():
        without_it = personal(torch.from_numpy(x[3:])).numpy()
    expected = np.concatenate([whole.probabilities(x[:3]), without_it])

    np.testing.assert_allclose(client.probabilities(x), expected, atol=1e-12)
    np.testing.assert_array_equal(client.predict(x), expected.argmax(1))
    with torch.no_grad():
        np.testing.assert_allclose(client.module()(torch.from_numpy(x)), expected, atol=1e-12)
    client.export(tmp_path / "m.pt2")
    program = torch.export.load(io.BytesIO((tmp_path / "m.pt2").read_bytes())).module()
    with torch.no_grad():
        np.testing.assert_allclose(program(torch.from_numpy(x)), expected, atol=1e-5)
    client.export(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_name_that_is_wrong_or_taken_is_refused(tmp_path: Path) -> None:
    client, _ = regression(tmp_path)
    with pytest.raises(ConfigError, match=r"m\.txt: must end in \.onnx, \.pt2, \.safetensors"):
        client.export(tmp_path / "m.txt")

    taken = tmp_path / "m.safetensors"
    taken.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        client.export(taken)
    assert taken.read_text() == "precious"
    client.export(taken, overwrite=True)
    assert "weights" in load_file(taken)


class Undecided(nn.Linear):
    """Looks at its inputs to decide what to do, which no program can follow."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.sum() > 0:
            return super().forward(input)
        return super().forward(-input)


def test_a_model_that_cannot_be_traced_is_refused_in_one_line(tmp_path: Path) -> None:
    run = federico.run(
        directory=tmp_path, data={"kind": "sine", "clients": 3, "samples_per_client": 12},
        partition={"kind": "natural"}, model=lambda: Undecided(1, 1), **SMALL,
    )  # fmt: skip
    with pytest.raises(ConfigError) as refused:
        run.client("1").export(tmp_path / "m.pt2")
    assert "\n" not in str(refused.value)
    assert "export its numbers instead, to safetensors" in str(refused.value)
    assert not (tmp_path / "m.pt2").exists()
