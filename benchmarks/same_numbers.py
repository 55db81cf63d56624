"""Whether two trees of this package compute the same numbers, bit for bit.

Usage: python -m benchmarks.same_numbers BEFORE [AFTER] [--method NAME] [--ranks N]
           [--set KEY=VALUE] [--set-before KEY=VALUE] [--set-after KEY=VALUE]

BEFORE and AFTER are folders with a checkout of the repository (`git worktree add --detach FOLDER
COMMIT` makes one); AFTER is this one unless it is named. Each tree runs the same experiments with
its own command line, in a process that imports nothing of the other, or in `--ranks` processes of
MPI. Then the records of every round, the last checkpoint (models, optimizers, posteriors and
whatever else a method keeps) and the personal models are compared, number by number. A number that
only one tree writes is named, not compared. The exit code is 1 where any number differs.

Where a default has changed between the two, `--set-after` gives the newer tree the older default.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.numpy import load_file

from benchmarks.store import ROOT
from federico.methods.registry import BUILT_IN

EXPERIMENTS = ("digits", "heart")


@dataclass
class Comparison:
    """What was compared of one cell, and what was found."""

    numbers: int = 0
    """How many arrays and entries of records are equal."""
    different: list[str] = field(default_factory=list)
    only_before: set[str] = field(default_factory=set)
    only_after: set[str] = field(default_factory=set)

    def compare(self, before: Mapping[str, Any], after: Mapping[str, Any], where: str = "") -> None:
        """Compare what both trees have of these values by name."""
        self.only_before |= before.keys() - after.keys()
        self.only_after |= after.keys() - before.keys()
        for name in sorted(before.keys() & after.keys()):
            if _bits(before[name]) == _bits(after[name]):
                self.numbers += 1
            else:
                self.different.append(f"{where}{name}")


def compare_cells(before: Path, after: Path) -> Comparison:
    """Compare all that two runs of one cell have left."""
    found = Comparison()
    rounds_before = list(_records(before))
    rounds_after = list(_records(after))
    if len(rounds_before) != len(rounds_after):
        found.different.append(f"rounds: {len(rounds_before)} and {len(rounds_after)}")
    for mine, others in zip(rounds_before, rounds_after, strict=False):
        found.compare(mine, others, f"round {mine['round']}: ")

    found.compare(_last_checkpoint(before), _last_checkpoint(after), "checkpoint: ")

    models_before = _personal_models(before)
    models_after = _personal_models(after)
    found.only_before |= models_before.keys() - models_after.keys()
    found.only_after |= models_after.keys() - models_before.keys()
    for name in sorted(models_before.keys() & models_after.keys()):
        found.compare(load_file(models_before[name]), load_file(models_after[name]), f"{name}: ")
    return found


def run(tree: Path, experiment: str, settings: Sequence[str], folder: Path, ranks: int = 1) -> Path:
    """Run an experiment of this repository with the code of a tree; returns the run directory."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    module, function = project["project"]["scripts"]["federico"].split(":")
    program = f"import sys; from {module} import {function}; sys.exit({function}())"
    command = [sys.executable, "-c", program, "run", str(ROOT / f"experiments/{experiment}.toml")]
    command += ["--directory", str(folder), "--name", experiment, "--quiet"]
    for setting in settings:
        command += ["--set", setting]
    if ranks > 1:
        command = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks), *command]

    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder / experiment


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both trees, compare, and say what came out."""
    asked = _parser().parse_args(arguments)
    all_equal = True
    methods = json.dumps(asked.method or list(BUILT_IN))
    settings = [f"methods={methods}", "seeds=[0]", f"rounds={asked.rounds}", *asked.set]
    trees = (
        ("before", asked.before, asked.set_before),
        ("after", asked.after, asked.set_after),
    )
    with TemporaryDirectory() as scratch:
        for experiment in asked.experiment or EXPERIMENTS:
            folders = []
            for label, tree, of_tree in trees:
                target = Path(scratch) / label
                folders.append(run(tree, experiment, settings + of_tree, target, asked.ranks))
            before, after = folders
            for cell in sorted(path.parent.name for path in before.glob("*/cell.json")):
                found = compare_cells(before / cell, after / cell)
                all_equal = all_equal and not found.different and found.numbers > 0
                _say(f"{experiment}/{cell}", found)
    return 0 if all_equal else 1


def _say(cell: str, found: Comparison) -> None:
    verdict = "DIFFERENT" if found.different else "equal"
    print(f"{cell}: {verdict}, {found.numbers} arrays and entries are the same", flush=True)
    for name in found.different[:5]:
        print(f"  differs: {name}")
    if len(found.different) > 5:
        print(f"  and {len(found.different) - 5} more")
    for label, names in (("before", found.only_before), ("after", found.only_after)):
        if names:
            print(f"  only {label}: {', '.join(sorted(names))}")


def _records(cell: Path) -> Iterator[dict[str, Any]]:
    """What each round has left; figures under their own names, as they once were."""
    for line in (cell / "records.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield record | record.pop("figures", {})


def _personal_models(cell: Path) -> dict[str, Path]:
    """The files with clients' models, by where they are."""
    found = {}
    for path in (cell / "clients").rglob("*.safetensors"):
        found[str(path.relative_to(cell))] = path
    return found


def _last_checkpoint(cell: Path) -> dict[str, Any]:
    """All arrays of the newest checkpoint by name; none where the cell keeps no checkpoint.

    A method's own state is under its own names, as it was before these began with "state.".
    """
    files = sorted((cell / "checkpoint").glob("round-*.safetensors"))
    if not files:
        return {}
    return {name.removeprefix("state."): values for name, values in load_file(files[-1]).items()}


def _bits(value: Any) -> object:
    """Something that is equal for two values if, and only if, every bit of them is."""
    if hasattr(value, "tobytes"):
        return (value.dtype.str, value.shape, value.tobytes())
    return json.dumps(value, sort_keys=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_numbers", description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout to compare with")
    parser.add_argument("after", type=Path, nargs="?", default=ROOT, help="default: this one")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--experiment", action="append", help=f"default: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--method", action="append", help="default: all that are built in")
    parser.add_argument("--ranks", type=int, default=1, help="processes of MPI for each run")
    for option, where in (
        ("--set", "both trees"),
        ("--set-before", "BEFORE"),
        ("--set-after", "AFTER"),
    ):
        parser.add_argument(
            option, action="append", default=[], metavar="KEY=VALUE", help=f"a setting for {where}"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
