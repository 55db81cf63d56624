import json
from collections.abc import Callable
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
