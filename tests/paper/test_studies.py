from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from federico.attacks.options import AttackKind
from federico.data.files import data_folder
from federico.errors import MissingFileError
from federico.experiment.build import Problem, load_problem, prepare
from federico.experiment.grid import Grid, load_grid
from federico.presets import STUDIES, preset, study_names

HOSTILE = [name for name in study_names() if name.startswith("hostile-")]
PRIVATE = [name for name in study_names() if name.startswith("private-")]
OF_MEMBERS = [name for name in study_names() if name not in HOSTILE + PRIVATE]
FROM_FILES = [name for name in study_names() if "digits" not in name]


def grid_of(name: str) -> Grid:
    return load_grid(preset(name))


def problem(name: str, column: int = 0) -> Problem:
    """The clients of a study's first seed, or a skip where its files are not there."""
    grid = grid_of(name)
    cell = grid.cells(grid.rows[0], grid.columns[column], "given")[0]
    try:
        return load_problem(cell.experiment, cell.seed)
    except MissingFileError as error:
        pytest.skip(f"{name}: {error}")


def sizes(found: Problem) -> list[tuple[int, int]]:
    return [(len(client.train), len(client.test)) for client in found.clients]


def test_every_kind_of_data_has_a_study() -> None:
    assert set(OF_MEMBERS) == {
        "people",
        "people-20",
        "hospitals",
        "hospitals-flamby",
        "office-home-domains",
        "office-home-dirichlet",
        "schools",
        "digits",
        "digits-rotated",
        "digits-iid",
        "digits-dirichlet",
    }


@pytest.mark.parametrize("name", OF_MEMBERS)
def test_a_study_compares_with_training_alone_with_plain_defaults(name: str) -> None:
    grid = grid_of(name)
    assert grid.name == name
    assert grid.options.title
    assert grid.reference == "local"
    assert {"federico", "local", "fedavg"} <= {row.name for row in grid.rows}
    assert "federico" not in grid.tables
    assert len(grid.experiment.seeds) >= 3


def test_studies_of_hostile_members_are_compared_with_their_absence_under_both_rules() -> None:
    assert set(HOSTILE) == {"hostile-digits", "hostile-people", "hostile-office-home"}
    kinds = set(get_args(AttackKind)) - {"absent", "honest"}  # "nobody is hostile" is as good
    for name in HOSTILE:
        grid = grid_of(name)
        rows = {row.name for row in grid.rows}
        absent = {"absent", "absent from then on"}
        assert rows >= {"local", "nobody is hostile", *absent, *kinds}
        assert rows >= {f"paper: {kind}" for kind in kinds}
        assert len(grid.experiment.seeds) >= 5


def test_studies_of_differential_privacy_show_what_each_epsilon_costs_every_method() -> None:
    assert set(PRIVATE) == {"private-digits", "private-people", "private-hospitals"}
    for name in PRIVATE:
        grid = grid_of(name)
        assert grid.reference == "local"
        epsilons = []
        for column in grid.columns:
            for row in grid.rows:
                cell = grid.cells(row, column, "given")[0]
                epsilons.append((row.name, cell.experiment.privacy.epsilon))
        assert {("federico", epsilon) for epsilon in (None, 8, 3, 1)} <= set(epsilons)
        assert {("local", epsilon) for epsilon in (None, 8, 3, 1)} <= set(epsilons)
        assert len(grid.experiment.seeds) >= 5


@pytest.mark.parametrize("name", PRIVATE)
def test_without_epsilon_a_study_of_privacy_is_the_study_of_its_data(name: str) -> None:
    plain = {"private-hospitals": "hospitals-flamby"}.get(name, name.removeprefix("private-"))
    for row in ("federico", "local"):
        settings = []
        for grid in (grid_of(name), grid_of(plain)):
            found = next(each for each in grid.rows if each.name == row)
            settings.append(grid.cells(found, grid.columns[0], "given")[0].settings)
        assert settings[0] == settings[1]


@pytest.mark.parametrize("name", study_names())
def test_every_method_of_a_study_passes_the_checks_before_the_first_round(name: str) -> None:
    found = problem(name)  # skips where the data is not there
    grid = grid_of(name)
    setup = prepare(grid.experiment, grid.experiment.seeds[0])
    assert len(setup.clients) == len(found.clients)
    assert setup.warnings == [] or name.startswith("office-home")


@pytest.mark.parametrize("name", FROM_FILES)
def test_where_the_data_is_missing_the_study_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    experiment = grid_of(name).experiment
    with pytest.raises(MissingFileError, match=r"not found: .*https://.* of FEDERICO_DATA\.$"):
        load_problem(experiment, 0)


def test_people_find_the_studies_beside_the_experiments() -> None:
    link = Path(__file__).parents[2] / "experiments" / "studies"
    assert link.resolve() == STUDIES.resolve()


def test_people_are_clients_and_may_have_few_samples() -> None:
    assert len(problem("people").clients) == 15
    assert {train for train, _ in sizes(problem("people-20"))} == {20}


def test_flambys_split_is_rebuilt_and_is_the_same_on_every_seed() -> None:
    fixed = problem("hospitals-flamby")
    assert fixed.shares.ids == ("cleveland", "hungarian", "switzerland", "va")
    assert sizes(fixed) == [(199, 104), (172, 89), (30, 16), (85, 45)]

    # FLamby's published models that always say "disease" are right on these shares of the patients.
    ill = [float(np.mean(client.test.y)) for client in fixed.clients]
    assert ill == pytest.approx([0.4615, 0.3708, 0.9375, 0.7778], abs=5e-5)

    experiment = grid_of("hospitals-flamby").experiment
    assert load_problem(experiment, 1).shares.hash == fixed.shares.hash
    drawn = problem("hospitals-flamby", column=1)
    assert [sum(size) for size in sizes(drawn)] == [303, 261, 46, 130]
    assert drawn.shares.hash != fixed.shares.hash


def test_schools_with_fewer_than_six_pupils_are_left_out() -> None:
    found = sizes(problem("schools"))
    assert len(found) == 130
    assert min(train + test for train, test in found) == 6


def test_domains_have_three_clients_each() -> None:
    found = problem("office-home-domains")
    assert found.shares.distribution == (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3)
    assert {train for train, _ in sizes(found)} == {400}


def test_rotated_digits_have_two_clients_for_each_angle() -> None:
    found = problem("digits-rotated")
    assert found.shares.distribution == (0, 1, 2, 3, 0, 1, 2, 3)
    assert {train for train, _ in sizes(found)} == {60}
