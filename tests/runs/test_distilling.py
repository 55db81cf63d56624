"""A mixture distilled into one model: what it answers, and what it says it has lost."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torch import nn

import federico
from federico.errors import DataError
from federico.learning.models import perceptron
from federico.runs.bundle import Bundle, open_folder
from federico.runs.distilling import divided
from federico.types import Array

SMALL = {"system": {"threads": 1}, "methods": ["federico"]}


def digits() -> tuple[Array, Array]:
    bunch = load_digits()
    return (bunch.data / 16).astype(np.float32), bunch.target


def two_layers() -> nn.Module:
    return perceptron((64, 16, 10))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    run = federico.run(
        directory=tmp_path_factory.mktemp("digits"), rounds=4, split={"samples": 400},
        model=two_layers,
        partition={"kind": "label-groups", "clients": 4, "groups": 2}, **SMALL,
    )  # fmt: skip
    return run.client("0")


@pytest.fixture(scope="module")
def distilled(client: Bundle) -> Bundle:
    x, y = digits()
    return client.distill(x[:600], y[:600], epochs=40)


def test_one_model_answers_nearly_as_the_mixture_does(client: Bundle, distilled: Bundle) -> None:
    x, _ = digits()
    assert len(client.posterior) > 1
    assert distilled.posterior == {"0": 1.0}
    assert distilled.collaborators() == []
    agreement = (client.predict(x[600:]) == distilled.predict(x[600:])).mean()
    assert agreement > 0.9
    own_model_alone = client.decided_by(x[600:])
    assert len(own_model_alone.columns) > len(distilled.decided_by(x[600:]).columns) == 1


def test_what_is_lost_is_measured_on_samples_kept_apart(client: Bundle, distilled: Bundle) -> None:
    lost = distilled.distillation
    assert lost is not None
    assert lost.samples == 120
    assert lost.agreement is not None
    x, y = digits()
    elsewhere = (client.predict(x[600:]) == distilled.predict(x[600:])).mean()
    assert lost.agreement == pytest.approx(elsewhere, abs=0.1)
    assert lost.difference > 0
    assert lost.mixture["accuracy"] == pytest.approx((client.predict(x) == y).mean(), abs=0.1)
    assert lost.distilled.keys() == lost.mixture.keys()
    assert str(lost).startswith("agrees on ")
    assert "Distillation(" not in repr(distilled) + distilled._repr_html_()
    assert "agrees on" in repr(distilled)
    assert client.distillation is None


def test_it_saves_and_exports_like_any_personal_model(
    client: Bundle, distilled: Bundle, tmp_path: Path
) -> None:
    x, _ = digits()
    distilled.save(tmp_path / "one")
    again = open_folder(tmp_path / "one", two_layers)
    np.testing.assert_array_equal(again.probabilities(x[:9]), distilled.probabilities(x[:9]))
    assert again.distillation == distilled.distillation
    distilled.export(tmp_path / "one.safetensors")
    client.export(tmp_path / "all.safetensors")
    sizes = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("one", "all")]
    assert sizes[0] < sizes[1] / 1.5


def test_the_same_seed_gives_the_same_model_and_nothing_else_moves(client: Bundle) -> None:
    x, _ = digits()
    before = client.probabilities(x[:5])
    first, second = (client.distill(x[:100], epochs=2) for _ in range(2))
    np.testing.assert_array_equal(first.probabilities(x[:5]), second.probabilities(x[:5]))
    np.testing.assert_array_equal(client.probabilities(x[:5]), before)
    assert first.distillation is not None
    assert first.distillation.mixture == {}, "without labels nothing is judged"


def test_values_are_in_their_own_units(tmp_path: Path) -> None:
    run = federico.run(
        directory=tmp_path, data={"kind": "sine", "clients": 4, "samples_per_client": 12},
        partition={"kind": "natural"}, rounds=2, model=lambda: perceptron((1, 8, 1)), **SMALL,
    )  # fmt: skip
    mixture = run.client("1")
    x = np.linspace(0, 6, 200, dtype=np.float32)[:, None]
    one = mixture.distill(x, np.sin(x), epochs=60)
    assert one.distillation is not None
    assert one.distillation.agreement is None
    assert one.distillation.mixture.keys() == {"rmse", "mae", "r2"}
    gap = np.sqrt(np.square(mixture.predict(x) - one.predict(x)).mean())
    assert one.distillation.difference == pytest.approx(gap, rel=0.5)
    assert gap < 0.3 * mixture.predict(x).std()


def test_batch_norm_learns_its_statistics(tmp_path: Path) -> None:
    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))

    run = federico.run(
        directory=tmp_path, rounds=4, split={"samples": 400}, model=normed,
        partition={"kind": "label-groups", "clients": 4, "groups": 2},
        federico={"w_max": 1.0}, **SMALL,  # one model decides, which is what is easy to learn
    )  # fmt: skip
    x, _ = digits()
    one = run.client("0").distill(x[:321], epochs=60)
    assert one.distillation is not None
    assert one.distillation.agreement is not None
    assert one.distillation.agreement > 0.75


def test_too_few_samples_are_refused(client: Bundle) -> None:
    with pytest.raises(DataError, match="x: 5 samples are too few to distil with: give 10"):
        client.distill(np.zeros((5, 64), dtype=np.float32))
    with pytest.raises(DataError, match="12 samples but 11 labels"):
        client.distill(np.zeros((12, 64), dtype=np.float32), np.zeros(11))


def test_nothing_is_measured_on_samples_that_were_learned_from() -> None:
    learned, apart = divided(103, 0, "north")
    assert len(apart) == 21
    assert sorted([*learned, *apart]) == list(range(103))
