"""The files between the command line and a gradient: the docs name them, and a stack shows them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import federico

PACKAGE = Path(federico.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "explanation-design.md"
MOST_FILES = 6

EXPERIMENT = """
methods = ["federico"]
rounds = 2
[split]
samples = 100
[partition]
kind = "iid"
clients = 3
[model]
kind = "import"
path = "net.py:Net"
[system]
threads = 1
"""
NET = """
import traceback
from pathlib import Path

import torch
from torch import nn

seen = Path(__file__).with_name("seen")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        if torch.is_grad_enabled():
            files = [frame.filename for frame in traceback.extract_stack()]
            with seen.open("a") as out:
                out.write("|".join(files) + "\\n")
        return self.layer(x.flatten(1))
"""


def walk_in_docs() -> list[str]:
    """The files that the first picture of the page names, but for what reads results."""
    _, picture, *_ = PAGE.read_text(encoding="utf-8").split("```")
    return re.findall(r"^ +(\w+/\w+)  ", picture, re.MULTILINE)


def test_the_docs_name_the_files_of_a_stack_that_ends_in_a_gradient(
    federico: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(EXPERIMENT, encoding="utf-8")
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    assert federico("run", "tiny.toml", "--quiet", "--trust").code == 0

    walks = set()
    for line in (tmp_path / "seen").read_text(encoding="utf-8").splitlines():
        paths = [Path(name) for name in line.split("|")]
        ours = [path.relative_to(PACKAGE) for path in paths if path.is_relative_to(PACKAGE)]
        walks.add(tuple(dict.fromkeys(path.with_suffix("").as_posix() for path in ours)))

    walk = walk_in_docs()
    assert len(walk) <= MOST_FILES
    # The models that a peer shows to nobody are trained as in other methods.
    through_method = [*walk[: walk.index("learning/learner")], "methods/method"]
    through_method += walk[walk.index("learning/learner") :]
    # Before the first round every model is tried once, which is no training.
    trained = {files for files in walks if "methods/federico" in files}
    assert trained == {tuple(walk), tuple(through_method)}
