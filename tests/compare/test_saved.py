import fcntl
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from federico.compare import saved
from federico.compare.result import Result
from federico.compare.saved import (
    LOCK,
    Saved,
    read_saved,
    rounded,
    saving,
    this_save,
    to_json,
    write_saved,
)
from federico.errors import DataError


@pytest.fixture
def kept(result: Result, tmp_path: Path) -> Path:
    return write_saved(
        [this_save("federico compare t.toml", 7.0)], result, {"overview": b"png"}, tmp_path
    )


def test_a_result_survives_the_disk(kept: Path, result: Result) -> None:
    again = read_saved(kept)
    assert [(save.command, save.seconds) for save in again.saves] == [
        ("federico compare t.toml", 7)
    ]
    assert again.result.tuned == rounded(result).tuned
    assert len(again.result.tuned) == 6
    assert (kept.parent / again.figures[0]).read_bytes() == b"png"
    assert (again.result.rounds, again.result.seeds, again.result.paper) == (
        2,
        [0, 1],
        result.paper,
    )
    for before, after in zip(result.entries, again.result.entries, strict=True):
        assert after.by_seed == pytest.approx(before.by_seed, abs=1e-6)
        assert (after.row, after.column, after.at, after.rate) == (
            before.row,
            before.column,
            before.at,
            before.rate,
        )
    assert to_json(again) == kept.read_text(), "what was read is written as it was"


def test_learning_rates_keep_all_their_digits(result: Result) -> None:
    rate = 10**-3.5
    entry, tuned = (
        replace(result.entries[0], rate=rate),
        replace(result.tuned[0], rate=rate, scores={rate: 1 / 3}),
    )
    again = rounded(replace(result, entries=[entry], tuned=[tuned]))
    assert (again.entries[0].rate, again.tuned[0].rate) == (rate, rate)
    assert again.tuned[0].scores == {rate: 0.333333}


def test_the_papers_figure_stays_if_it_cannot_be_drawn_now(result: Result, tmp_path: Path) -> None:
    save = [this_save("c", 0)]
    both = read_saved(write_saved(save, result, {"figure": b"1", "overview": b"1"}, tmp_path))
    assert both.figures == ["tiny-figure.png", "tiny-overview.png"]
    later = read_saved(write_saved(save, result, {"overview": b"2"}, tmp_path, both.figures))
    assert later.figures == both.figures
    assert [(tmp_path / name).read_bytes() for name in later.figures] == [b"1", b"2"]
    assert read_saved(write_saved(save, result, {"overview": b"3"}, tmp_path)).figures == [
        "tiny-overview.png"
    ]


def test_one_command_saves_at_a_time(tmp_path: Path) -> None:
    with saving(tmp_path), (tmp_path / LOCK).open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / LOCK).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_run_that_diverged_can_be_kept(kept: Path) -> None:
    again = read_saved(kept)
    first = replace(again.result.entries[0], by_seed={0: float("inf")})
    bad = replace(again, result=replace(again.result, entries=[first]))
    kept.write_text(to_json(bad))
    assert json.loads(kept.read_text())
    assert read_saved(kept).result.entries[0].by_seed == {0: float("inf")}


@pytest.mark.parametrize(
    ("content", "said"),
    [("{}", "not a saved result: saves: .*move it away"), ("no json", "not a saved result")],
)
def test_another_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(DataError, match=said):
        read_saved(file)
    with pytest.raises(DataError, match="cannot be read"):
        read_saved(tmp_path / "none.json")


def test_the_commit_is_that_of_a_checkout_and_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    file = tmp_path / "package" / "compare" / "saved.py"
    file.parent.mkdir(parents=True)
    file.write_text("")
    monkeypatch.setattr(saved, "__file__", str(file))
    assert saved._commit() == "", "not in a repository"
    git("init", "-q")
    assert saved._commit() == "", "in somebody else's repository"
    git("add", str(file))
    git("commit", "-q", "-m", "x")
    head = git("rev-parse", "HEAD").strip()
    assert head.startswith(saved._commit())
    (tmp_path / "result.json").write_text("{}")
    assert head.startswith(saved._commit()), "a result is no change of the code"
    file.write_text("changed = 1\n")
    assert saved._commit().endswith("-dirty")


def test_saved_names_what_it_was_run_with(kept: Path) -> None:
    found: Saved = read_saved(kept)
    assert {"federico", "torch", "numpy", "python"} == set(found.saves[0].versions)
    assert "cores" in found.saves[0].machine
