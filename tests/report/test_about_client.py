"""What is said about a client: its collaborators, its reasons, what it predicts with."""

from dataclasses import replace
from pathlib import Path

import pytest

from federico.report.about_client import (
    ClientEvidence,
    Judged,
    about_client,
    evidence_of_all,
)
from federico.runs.comparison import Comparison
from federico.runs.layout import CellDir
from federico.runs.records import Record, read_last_record
from tests.support.run_folders import POSTERIORS, write_cell

PEOPLE = ["0", "1", "2", "3", "4", "5", "6", "7", "8"]


def about(row: dict[str, float], distribution: list[int] | None = None) -> str:
    """What is said of client 0, given its posterior and everybody's distribution."""
    groups = None
    if distribution is not None:
        groups = dict(zip(PEOPLE, distribution, strict=True))
    return about_client(ClientEvidence("0", row), groups)


def test_nobody() -> None:
    assert about({"0": 0.995, "1": 0.005}) == "Client 0 works alone."


@pytest.mark.parametrize(("group", "whose"), [(0, "its own"), (1, "another")])
def test_one_collaborator(group: int, whose: str) -> None:
    assert about({"0": 0.4, "1": 0.6}, [0, group, 0, 1, 1, 1, 1, 1, 1]) == (
        "Client 0 learns with 1 (60 %) and keeps 40 % for its own model. "
        f"That peer is of {whose} distribution."
    )


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([0, 0], "Both are of its own distribution."),
        ([1, 1], "Neither is of its own distribution."),
        ([0, 1], "One of the two is of its own distribution."),
    ],
)
def test_two_collaborators(groups: list[int], sentence: str) -> None:
    told = about({"0": 0.35, "1": 0.31, "2": 0.34}, [0, *groups, 0, 1, 1, 1, 1, 1])

    assert told == (
        f"Client 0 learns with 2 (34 %) and 1 (31 %) and keeps 35 % for its own model. {sentence}"
    )


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([0, 0, 0], "All three are of its own distribution."),
        ([1, 1, 1], "None of them is of its own distribution."),
        ([0, 0, 1], "Two of the three are of its own distribution."),
        ([0, 1, 1], "One of the three is of its own distribution."),
    ],
)
def test_three_collaborators(groups: list[int], sentence: str) -> None:
    told = about({"0": 0.1, "1": 0.4, "2": 0.3, "3": 0.2}, [0, *groups, 0, 1, 1, 1, 1])

    assert told == (
        "Client 0 learns with 1 (40 %), 2 (30 %) and 3 (20 %) and keeps 10 % for its own model. "
        f"{sentence}"
    )


def test_many_are_cut_and_an_own_model_without_weight_is_said_so() -> None:
    told = about(
        {"1": 0.3, "2": 0.2, "3": 0.15, "4": 0.12, "5": 0.1, "6": 0.07, "7": 0.05, "8": 0.01}
    )

    assert told.endswith("5 (10 %) and 3 others (together 13 %) and gives its own model no weight.")


def test_weight_on_many_that_are_none_of_them_worth_a_word_is_not_being_alone() -> None:
    many = {str(peer): 0.004 for peer in range(1, 201)}

    assert about({"0": 0.2} | many) == (
        "Client 0 spreads 80 % of its weight over many models of others, none of which has 1 %, "
        "and keeps 20 % for its own model."
    )
    # Of many clients only the largest weights are recorded.
    assert about({"0": 0.2}).startswith("Client 0 spreads 80 % of its weight")
    assert about({"0": 1.0, "1": 0.0}).startswith("Client 0 works alone")


def test_a_named_client_is_called_by_its_name() -> None:
    evidence = ClientEvidence("Basel", {"Basel": 0.5, "Bern": 0.5})

    assert about_client(evidence) == (
        "Basel learns with Bern (50 %) and keeps 50 % for its own model."
    )


COMPARED = Comparison(
    alone={"accuracy": 0.712, "loss": 0.6},
    together={"accuracy": 0.76, "loss": 0.5},
    used={"accuracy": 0.757, "loss": 0.5},
    together_share=0.86,
)


def test_a_model_that_does_harm_has_no_weight_because_it_is_worse_than_a_guess() -> None:
    graz = ClientEvidence(
        "Graz",
        {"Graz": 0.0, "Linz": 0.6, "Wels": 0.4},
        judged="held_out",
        train_samples=24,
        comparison=COMPARED,
    )

    assert about_client(graz) == (
        "Graz learns with Linz (60 %) and Wels (40 %) and gives its own model no weight because "
        "that model, trained on 24 samples of its own, does worse than a guess that only knows how "
        "frequent each label is on the samples that it held out to judge models. On its test data "
        "it reaches an accuracy of 71.2 % alone, 76.0 % with collaborators and 75.7 % as it "
        "predicts, mostly together (86 %); a private model, trained alone, has the rest."
    )


def test_it_says_how_sure_it_is_which_is_better() -> None:
    compared = replace(COMPARED, together_chance=0.07)
    graz = ClientEvidence("Graz", {"Graz": 0.4, "Linz": 0.6}, "held_out", comparison=compared)
    assert "By its held-out samples it is 93 % sure that alone is better." in about_client(graz)
    alone = replace(graz, posterior={"Graz": 1.0})
    assert "sure" not in about_client(alone), "it has no collaborators"


def test_a_share_that_the_test_data_contradicts_is_explained() -> None:
    worse = replace(COMPARED, together={"accuracy": 0.625, "loss": 0.5})
    graz = ClientEvidence("Graz", {"Graz": 0.4, "Linz": 0.6}, "held_out", comparison=worse)
    explained = "The share is set on samples held out of training, not on this test data."

    assert about_client(graz).endswith(f" has the rest. {explained}")
    assert explained not in about_client(replace(graz, comparison=COMPARED))


def test_values_are_guessed_by_their_mean() -> None:
    graz = ClientEvidence("Graz", {"Graz": 0.0, "Linz": 1.0}, "held_out", "regression")

    assert "does worse than their mean on the samples" in about_client(graz)


@pytest.mark.parametrize("own", [{"Graz": 0.001}, {}])
def test_a_small_weight_is_no_claim_that_the_model_does_harm(own: dict[str, float]) -> None:
    """Of many clients only the largest weights are recorded: one may just be missing."""
    told = about_client(ClientEvidence("Graz", own | {"Linz": 0.999}, "held_out"))

    assert "far less well than theirs do" in told
    assert "guess" not in told


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        ("held_out", "comes near its own on the samples that it held out"),
        ("training", "fits its training samples nearly as well"),
        ("", "Graz works alone."),
    ],
)
def test_why_a_client_works_alone(judged: Judged, reason: str) -> None:
    assert reason in about_client(ClientEvidence("Graz", {"Graz": 1.0, "Linz": 0.0}, judged))


def test_the_evidence_of_a_real_cell_is_that_of_its_last_round(tmp_path: Path) -> None:
    rounds = [{"posterior": posterior} for posterior in POSTERIORS]
    options = {"federico": {"evidence": "held_out"}}
    cell = write_cell(tmp_path, "federico", *rounds, options=options)

    evidence = evidence_of_all(cell.description, last_record(cell))

    assert [each.client for each in evidence] == ["a", "b", "c"]
    assert evidence[0].posterior == {"a": 0.6, "b": 0.4}
    assert evidence[0].judged == "held_out"
    assert evidence[0].train_samples == 6
    without = write_cell(tmp_path, "local", {})
    assert evidence_of_all(without.description, last_record(without)) == []


def last_record(cell: CellDir) -> Record:
    last = read_last_record(cell.path)
    assert last is not None
    return last
