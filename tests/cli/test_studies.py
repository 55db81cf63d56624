"""A study from end to end."""

import json
from collections.abc import Callable
from typing import Any

Command = Callable[..., Any]


def test_a_study_runs_and_says_what_it_is_worth_to_the_clients(federico: Command) -> None:
    smaller = ["--set", "rounds=2", "--set", "seeds=[0, 1]", "--set", "split.max_train=20"]
    answer = federico("reproduce", "digits-rotated", *smaller)
    assert answer.code == 0, answer.err
    assert "Against training alone" in answer.out
    assert "clearly worse" in answer.out

    told = federico("reproduce", "digits-rotated", *smaller, "--json")
    entries = {entry["row"]: entry for entry in json.loads(told.out)["entries"]}
    rows = {"federico", "FedeRiCo (the paper's rule)", "local", "fedavg", "fedavg_plus"}
    assert entries.keys() == rows
    versus = entries["federico"]["versus_reference"]
    assert versus["runs"] == 2
    low, high = versus["interval"]
    assert low <= versus["difference"] <= high
    assert 0 <= versus["clients"]["better"] <= versus["clients"]["not_worse"] <= 1
    assert entries["local"]["versus_reference"] is None

    page = federico("report", "runs/digits-rotated")
    assert page.code == 0, page.err
