import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federico.compare import saved
from federico.compare.result import Result
from federico.compare.saved import Saved, read_saved, save, to_json
from federico.errors import DataError


@pytest.fixture
def kept(played: Any, tmp_path: Path) -> Path:
    return save(played.study, played.folder, played.result, {"overview": b"png"}, "federico compare t.toml", tmp_path)


def test_a_result_survives_the_disk(kept: Path, result: Result) -> None:
    again = read_saved(kept)
    assert again.command == "federico compare t.toml"
    assert (kept.parent / again.figures[0]).read_bytes() == b"png"
    assert (again.result.rounds, again.result.seeds, again.result.paper) == (2, [0, 1], result.paper)
    for before, after in zip(result.entries, again.result.entries, strict=True):
        assert after.by_seed == pytest.approx(before.by_seed, abs=1e-6)
        assert (after.row, after.column, after.at, after.rate) == (before.row, before.column, before.at, before.rate)
    assert to_json(again) == kept.read_text(), "what was read is written as it was"


def test_all_seconds_count_tuning_too(kept: Path, played: Any) -> None:
    cells = {cell.name: cell for cell in played.told.expected}
    spent = sum(sum(each.seconds.values()) for cell in cells.values() for each in played.folder.cell(cell).spent)
    assert read_saved(kept).seconds == pytest.approx(spent, abs=1e-3)


def test_a_run_that_diverged_can_be_kept(kept: Path) -> None:
    again = read_saved(kept)
    first = replace(again.result.entries[0], by_seed={0: float("inf")})
    bad = replace(again, result=replace(again.result, entries=[first]))
    kept.write_text(to_json(bad))
    assert json.loads(kept.read_text())
    assert read_saved(kept).result.entries[0].by_seed == {0: float("inf")}


@pytest.mark.parametrize(
    ("content", "said"), [("{}", "not a saved result: command: "), ("no json", "not a saved result")]
)
def test_another_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(DataError, match=said):
        read_saved(file)
    with pytest.raises(DataError, match="cannot be read"):
        read_saved(tmp_path / "none.json")


def test_the_commit_is_that_of_a_checkout_and_of_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    file = tmp_path / "saved.py"
    file.write_text("")
    monkeypatch.setattr(saved, "__file__", str(file))
    assert saved._commit() == "", "not in a repository"
    git("init", "-q")
    assert saved._commit() == "", "in somebody else's repository"
    git("add", "saved.py")
    git("commit", "-q", "-m", "x")
    head = git("rev-parse", "HEAD").strip()
    assert head.startswith(saved._commit())
    file.write_text("changed = 1\n")
    assert saved._commit().endswith("-dirty")


def test_saved_names_what_it_was_run_with(kept: Path) -> None:
    found: Saved = read_saved(kept)
    assert {"federico", "torch", "numpy", "python"} == set(found.versions)
    assert "cores" in found.machine
