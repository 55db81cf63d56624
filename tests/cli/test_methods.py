import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from federico.methods import METHODS


def test_json_lists_every_method_with_all_its_options(federico: Callable[..., Any]) -> None:
    listed = json.loads(federico("methods", "--json").out)
    assert set(listed) == set(METHODS)
    assert listed["federico"]["options"]["epsilon"]["default"] == 0.3
    for name, method in METHODS.items():
        assert set(listed[name]["options"]) == set(method.options.model_fields)
        assert all(option["meaning"] for option in listed[name]["options"].values())
        assert listed[name]["summary"]


def test_table_names_options_as_an_experiment_does(federico: Callable[..., Any]) -> None:
    text = federico("methods").out
    assert "federico.epsilon" in text
    assert "fedavg_plus.tune_epochs" in text
    for method in METHODS.values():
        assert method.title in text


OWN_METHOD = """
from federico.methods.local import Local


class Mine(Local):
    name = "mine"
    title = "Mine"
    summary = "Nothing new."
"""


def test_ones_own_method_is_listed_like_a_built_in_one(
    federico: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    assert "Mine  (mine): Nothing new." in federico("methods", "mine.py:Mine").out
    listed = json.loads(federico("methods", "mine.py:Mine", "--json").out)
    assert listed == {"mine": {"title": "Mine", "summary": "Nothing new.", "options": {}}}


def test_an_option_without_a_sentence_has_no_meaning(
    federico: Callable[..., Any], tmp_path: Path
) -> None:
    options = "from federico.options import Options\n\n\nclass Mu(Options):\n    mu: float = 0.5\n"
    (tmp_path / "mine.py").write_text(f"{options}{OWN_METHOD}    options = Mu\n")
    shown = federico("methods", "mine.py:Mine").out
    assert "mine.mu" in shown
    assert "None" not in shown
    listed = json.loads(federico("methods", "mine.py:Mine", "--json").out)
    assert listed["mine"]["options"] == {"mu": {"default": 0.5, "meaning": ""}}


def test_a_method_that_is_not_there_is_an_error_not_a_traceback(
    federico: Callable[..., Any],
) -> None:
    answer = federico("methods", "mine.py:Mine")
    assert answer.code == 2
    assert "methods: " in answer.err
