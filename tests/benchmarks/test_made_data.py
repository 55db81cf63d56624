"""The benchmark on made data runs, keeps what it has measured, and its page says what is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import made_data, made_data_page
from benchmarks.made_data import Kept, Outcome, compare_values, measure, summaries, summary
from benchmarks.made_settings import SETTINGS, MadeClients, Setting
from benchmarks.page import DOCS
from federico.runs.metric import MINUS

OUTCOME = Outcome(
    setting="rings",
    batch_size=50,
    seed=7,
    commit="abc",
    clients=["c0", "c1"],
    trained=[100, 90],
    tested=[400, 400],
    alone=[0.8, 0.6],
    gain=[-0.3, 0.1],
    error=[0.02, 0.02],
    together_share=[0.6, 0.5],
    alone_apart=0.0,
)


def tiny(random: np.random.Generator) -> MadeClients:
    """Two clients of a setting."""
    clients = SETTINGS["wine_alike"].make(random)
    return {name: clients[name] for name in ("c0", "c1")}


def test_a_federation_is_measured_against_training_alone() -> None:
    setting = Setting("tiny", "linear", "classification", tiny, is_new=False)
    outcome = measure(setting, batch_size=50, seed=0, rounds=3)
    assert outcome.clients == ["c0", "c1"]
    assert (outcome.trained, outcome.tested) == ([30, 22], [30, 23])
    assert all(0 <= share <= 1 for share in outcome.together_share)
    assert outcome.alone_apart == 0, "the private model is what training alone gives"


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_setting_is_made_again_by_its_seed(setting: Setting) -> None:
    first = setting.make(np.random.default_rng(3))
    again = setting.make(np.random.default_rng(3))
    other = setting.make(np.random.default_rng(4))
    assert len(first) > 1
    for name, client in first.items():
        for samples, same in ((client.train, again[name].train), (client.test, again[name].test)):
            np.testing.assert_array_equal(samples[0], same[0])
            np.testing.assert_array_equal(samples[1], same[1])
            assert len(samples[0]) == len(samples[1]) > 0
    assert not np.array_equal(first["c0"].train[0], other["c0"].train[0])
    assert setting.about


def test_what_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    Kept.read(file).add(OUTCOME)
    Kept.read(file).add(replace(OUTCOME, seed=8))
    kept = Kept.read(file)
    assert kept.outcomes == [OUTCOME, replace(OUTCOME, seed=8)]
    assert kept.holds("rings", 50, 8, "abc")
    assert not kept.holds("rings", 10, 8, "abc")
    assert not kept.holds("rings", 50, 8, "of other code")

    newer = replace(OUTCOME, commit="of other code")
    kept.add(newer)
    assert Kept.read(file).outcomes == [newer, replace(OUTCOME, seed=8)]


def test_no_setting_is_run_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "made.json"
    Kept.read(file).add(replace(OUTCOME, commit=made_data.code_commit()))
    before = file.read_text()
    made_data.main(["--only", "rings", "--seeds", "7", "--save", str(file)])
    assert file.read_text() == before
    assert "clearly worse 1 of 2" in capsys.readouterr().out


def test_a_setting_is_worse_by_more_than_the_limit_and_than_chance() -> None:
    losing = [replace(OUTCOME, seed=seed, gain=[-0.02, 0.0]) for seed in range(4)]
    assert summary(losing).is_worse
    assert not summary(losing[:1]).is_worse, "one seed says nothing about chance"
    little = [replace(outcome, gain=[-0.008, 0.0]) for outcome in losing]
    assert not summary(little).is_worse
    uncertain = [replace(OUTCOME, gain=[gain, gain]) for gain in (-0.2, 0.15, -0.1, 0.1)]
    assert summary(uncertain).gain < -0.005
    assert not summary(uncertain).is_worse


def test_values_are_compared_sample_by_sample() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=300)
    alone = y + random.normal(size=300)
    r2, gain, error = compare_values(y, alone[:, None], alone[:, None] + 0.1)
    assert r2 == pytest.approx(1 - np.mean((alone - y) ** 2) / np.var(y))
    assert gain == pytest.approx(
        (np.mean((alone - y) ** 2) - np.mean((alone + 0.1 - y) ** 2)) / np.var(y)
    )
    assert error < 0.02, "what both find hard says nothing about the difference"


def test_page_is_what_is_stored() -> None:
    kept = Kept.read(made_data.STORED)
    page = (DOCS / made_data_page.NAME).read_text(encoding="utf-8")
    assert page == made_data_page.text(kept), "run `make docs`"
    assert set(SETTINGS) == {outcome.setting for outcome in kept.outcomes}
    assert "dirty" not in page, "figures are those of committed code"


def test_page_says_where_the_claim_does_not_hold(tmp_path: Path) -> None:
    kept = Kept.read(tmp_path / "made.json")
    for seed in range(4):
        kept.add(replace(OUTCOME, seed=seed))
    (found,) = summaries(kept.outcomes)
    assert found.is_worse
    page = made_data_page.text(kept)
    assert f"`rings` (gain {MINUS}10.0; 50 % of the clients)" in page
    assert f"| `rings` | 50 | 0, c0 | 100 | 80.0 | {MINUS}30.0 ± 2.0 | 60 % |" in page


def test_page_says_where_it_holds(tmp_path: Path) -> None:
    kept = Kept.read(tmp_path / "made.json")
    for seed in range(4):
        kept.add(replace(OUTCOME, seed=seed, gain=[0.01, 0.0]))
    page = made_data_page.text(kept)
    assert "None of the 1 lines above is worse than alone." in page
    assert "The clients that lose most" not in page
