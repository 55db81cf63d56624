"""Telling a model whose code has changed from one that is the same."""

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from federico.learning.structure import structure_of

HELPERS = """
def squashed(x):
    return x * 2
"""
NET = """
from functools import partial

import torch
from torch import nn
from torch.nn.functional import relu as bent

import helpers
from helpers import squashed

SCALE = 2.0


def inner(x):
    return x + 1


def middle(x):
    return inner(x)  # one helper calls another


class Base(nn.Module):
    factor = 3

    def __init__(self, act=torch.relu, power=partial(torch.pow, exponent=2)):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.act = act
        self.power = power

    def forward(self, x):
        return self.mixed(middle(self.act(self.layer(x)))) * SCALE

    def mixed(self, x):
        return bent(self.power(helpers.squashed(x))) * self.factor


class Net(Base):
    @property
    def twice(self):
        return 2


def other():
    return "nothing that the model uses"
"""


@pytest.fixture
def structure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The structure of Net, with a part of its file or of its helpers' file replaced."""
    versions = iter(range(1000))

    def written(old: str = "", new: str = "", model: str = "Net()") -> str:
        assert old in NET + HELPERS, "otherwise nothing changes"
        folder = tmp_path / str(next(versions))
        folder.mkdir()
        for name, source in (("helpers", HELPERS), ("net", NET)):
            file = folder / f"{name}.py"
            file.write_text(source.replace(old, new) if old else source)
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, module)
            spec.loader.exec_module(module)
        return structure_of(eval(model, vars(module)))  # noqa: S307 (the test's own words)

    return written


def test_the_same_code_elsewhere_is_the_same(structure: Callable[..., str]) -> None:
    first = structure()
    assert structure() == first
    assert structure("  # one helper calls another", "   # a comment") == first
    assert structure("nothing that", "still nothing that") == first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return self.mixed(middle(", "return -self.mixed(middle("),  # a base class
        ("act=torch.relu", "act=torch.tanh"),
        ("import relu as bent", "import gelu as bent"),
        ("return x + 1", "return x + 2"),  # a helper of a helper
        ("return x * 2", "return x * 3"),  # in another file, by the name of its module
        ("SCALE = 2.0", "SCALE = 2.5"),
        ("factor = 3", "factor = 4"),
        ("exponent=2", "exponent=3"),
        ("return 2\n", "return 4\n"),  # a property
    ],
)
def test_whatever_the_model_computes_with_counts(
    structure: Callable[..., str], old: str, new: str
) -> None:
    assert structure(old, new) != structure()


@pytest.mark.parametrize(
    "model",
    [
        "Net(torch.tanh)",
        "Net(nn.functional.silu)",
        "Net(lambda x: -x)",
        "Net(squashed)",
        "Net(partial(torch.clamp, min=0.5))",
    ],
)
def test_functions_that_the_model_was_given_count(
    structure: Callable[..., str], model: str
) -> None:
    assert structure(model=model) != structure()


def test_arguments_of_what_it_was_given_count(structure: Callable[..., str]) -> None:
    low = structure(model="Net(partial(torch.clamp, min=0.5))")
    assert structure(model="Net(partial(torch.clamp, min=0.7))") != low


def test_what_a_function_was_made_with_counts() -> None:
    """Two functions of the same code, with other values around them."""
    from torch import nn

    def net(power: float) -> nn.Module:
        class Powered(nn.Linear):
            def forward(self, x):  # type: ignore[no-untyped-def]
                return super().forward(x) ** power

        return Powered(2, 2)

    assert structure_of(net(2.0)) == structure_of(net(2.0))
    assert structure_of(net(2.0)) != structure_of(net(math.pi))
