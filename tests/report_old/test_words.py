from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from federico.report.old import words
from federico.report.old.metric import ACCURACY
from federico.report.old.summary import Comparison, summarize
from federico.runs.layout import Description, RunDir

PEOPLE = ["0", "1", "2", "3", "4", "5", "6", "7", "8"]


@pytest.fixture
def about(description: Description) -> Callable[..., str]:
    """What is said of client 0, given its posterior and everybody's distribution."""

    def tell(row: dict[str, float], distribution: list[int] | None = None) -> str:
        nine = replace(description, clients=PEOPLE, distribution=distribution)
        return next(words.collaborators(nine, [row, *({name: 1.0} for name in PEOPLE[1:])]))

    return tell


def test_nobody(about: Callable[..., str]) -> None:
    assert about({"0": 0.995, "1": 0.005}) == "Client 0 works alone."


@pytest.mark.parametrize(("group", "whose"), [(0, "its own"), (1, "another")])
def test_one(about: Callable[..., str], group: int, whose: str) -> None:
    expected = f"Client 0 learns with 1 (60 %) and keeps 40 % for its own model. That peer is of {whose} distribution."
    assert about({"0": 0.4, "1": 0.6}, [0, group, 0, 1, 1, 1, 1, 1, 1]) == expected


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([0, 0], "Both are of its own distribution."),
        ([1, 1], "Neither is of its own distribution."),
        ([0, 1], "One of the two is of its own distribution."),
    ],
)
def test_two(about: Callable[..., str], groups: list[int], sentence: str) -> None:
    expected = (
        f"Client 0 learns with 2 (34 %) and 1 (31 %) and keeps 35 % for its own model. {sentence}"
    )
    assert about({"0": 0.35, "1": 0.31, "2": 0.34}, [0, *groups, 0, 1, 1, 1, 1, 1]) == expected


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([0, 0, 0], "All three are of its own distribution."),
        ([1, 1, 1], "None of them is of its own distribution."),
        ([0, 0, 1], "Two of the three are of its own distribution."),
        ([0, 1, 1], "One of the three is of its own distribution."),
    ],
)
def test_three(about: Callable[..., str], groups: list[int], sentence: str) -> None:
    told = about({"0": 0.1, "1": 0.4, "2": 0.3, "3": 0.2}, [0, *groups, 0, 1, 1, 1, 1])
    assert (
        told
        == f"Client 0 learns with 1 (40 %), 2 (30 %) and 3 (20 %) and keeps 10 % for its own model. {sentence}"
    )


def test_many_are_cut_and_an_own_model_without_weight_is_said_so(about: Callable[..., str]) -> None:
    told = about(
        {"1": 0.3, "2": 0.2, "3": 0.15, "4": 0.12, "5": 0.1, "6": 0.07, "7": 0.05, "8": 0.01}
    )
    assert told.endswith("5 (10 %) and 3 others (together 13 %) and gives its own model no weight.")


def test_a_named_client_is_called_by_its_name(description: Description) -> None:
    description = replace(description, clients=["Basel", "Bern"], distribution=None)
    told = list(words.collaborators(description, [{"Basel": 0.5, "Bern": 0.5}, {"Bern": 1.0}]))
    assert told == [
        "Basel learns with Bern (50 %) and keeps 50 % for its own model.",
        "Bern works alone.",
    ]


def test_a_long_list_of_clients_is_cut_and_says_so(description: Description) -> None:
    names = [str(i) for i in range(words.MOST_CLIENTS + 1)]
    description = replace(description, clients=names, distribution=None)
    assert (
        len(list(words.collaborators(description, [{name: 1.0} for name in names])))
        == words.MOST_CLIENTS
    )
    assert words.not_listed(len(names)) == "The first 100 of 101 clients are listed."
    assert words.not_listed(words.MOST_CLIENTS) == ""


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.001, "less than 1 %"),
        (0.344, "34 %"),
        (0.997, "more than 99 %"),
        (0.99999, "100 %"),
        (1, "100 %"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert words.percent(share) == text


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (0.069, "6.9 points above training alone (better in 1 of 2 runs)"),
        (-0.01, "1.0 points below training alone (better in 1 of 2 runs)"),
        (0.0, "the same as training alone (better in 1 of 2 runs)"),
    ],
)
def test_against_local(difference: float, text: str) -> None:
    assert words.against_local(Comparison(difference, 1, 2), ACCURACY) == text


def test_the_headline_says_the_main_result(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({"accuracy": [0.808] * 3, "posterior": [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]})
    write_cell({"accuracy": [0.739] * 3}, method="local")
    summary = summarize(RunDir(tmp_path))
    assert words.headline(summary) == (
        "FedeRiCo reaches 80.8 % accuracy on the clients' own test data, "
        "6.9 points above training alone (better in 1 of 1 run)."
    )
    assert words.trust(summary) == (
        "A client predicts with 1.0 models on average, and 100 % of its trust lies on clients of its own distribution."
    )
    assert words.progress(summary) == ""


def test_the_headline_of_a_regression_without_local(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell(
        {"loss": [0.5] * 3}, method="fedavg", task="regression", label_names=[], label_counts=[]
    )
    summary = summarize(RunDir(tmp_path))
    assert words.headline(summary, short=True) == "FedAvg reaches a mean squared error of 0.5"
    assert words.trust(summary) == ""


def test_an_unfinished_run_says_how_far_it_is(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    (tmp_path / "config.toml").write_text('methods = ["federico"]\nseeds = [0, 1]\nrounds = 30\n')
    write_cell(*({} for i in range(1, 13)), finished=False)
    summary = summarize(RunDir(tmp_path))
    assert words.headline(summary) == "Nothing has been evaluated yet."
    assert words.progress(summary) == (
        "Not finished: FedeRiCo with seed 0 is at round 12 of 30 and FedeRiCo with seed 1 has not begun."
    )


def test_many_unfinished_cells_are_counted(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    (tmp_path / "config.toml").write_text(
        'methods = ["federico"]\nseeds = [0, 1, 2, 3, 4, 5, 6]\nrounds = 2\n'
    )
    write_cell({}, finished=False)
    assert words.progress(summarize(RunDir(tmp_path))).endswith(
        "FedeRiCo with seed 4 has not begun and 2 more."
    )
