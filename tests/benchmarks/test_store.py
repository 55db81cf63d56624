import json
from pathlib import Path

from benchmarks.store import Results, Unfinished, code_digest, drop_other_caches


def test_results_come_back_row_by_row(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    results.write("mlp", {"cores": "2"}, [{"peak": 1}, {"peak": 2}])
    results.write("cnn2", {"cores": "4"}, [])
    assert list(results) == ["cnn2", "mlp"]
    assert results.measurements("mlp") == [{"peak": 1}, {"peak": 2}]
    assert results.machine("mlp") == {"cores": "2"}
    assert "linear" not in results
    assert results.measurements("linear") == []


def test_results_are_replaced_whole(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.write("mlp", {}, [{"peak": 1}, {"peak": 2}])
    results.write("mlp", {}, [{"peak": 3}])
    assert results.measurements("mlp") == [{"peak": 3}]


def test_results_keep_six_digits(tmp_path: Path) -> None:
    Results(tmp_path).write("mlp", {}, [{"turns": [{"whole": 1.23456789, "visits": 1234567}]}])
    (stored,) = json.loads((tmp_path / "mlp.json").read_text())["measurements"]
    assert stored == {"turns": [{"whole": 1.23457, "visits": 1234567}]}


def test_stopped_suite_goes_on_with_what_it_has(tmp_path: Path) -> None:
    Unfinished(tmp_path / "cache").add("mlp", {"peak": 1})
    again = Unfinished(tmp_path / "cache")
    again.add("cnn2", {"peak": 2})
    again.add("mlp", {"peak": 3})
    assert again.measurements("mlp") == [{"peak": 1}, {"peak": 3}]


def test_line_cut_short_by_a_stop_is_measured_again(tmp_path: Path) -> None:
    suite = Unfinished(tmp_path)
    suite.add("mlp", {"peak": 1})
    suite.add("mlp", {"peak": 2})
    file = tmp_path / "unfinished.jsonl"
    file.write_text(file.read_text()[:-5])
    assert suite.measurements("mlp") == [{"peak": 1}]


def test_rows_that_are_done_leave_the_others(tmp_path: Path) -> None:
    suite = Unfinished(tmp_path)
    suite.drop(["mlp"])
    suite.add("mlp", {"peak": 1})
    suite.add("cnn2", {"peak": 2})
    suite.drop(["mlp", "linear"])
    assert (suite.measurements("mlp"), suite.measurements("cnn2")) == ([], [{"peak": 2}])


def test_digest_follows_the_code_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    code = tmp_path / "inner" / "a.py"
    code.write_text("1")
    first = code_digest([(tmp_path, "**/*.py")])
    (tmp_path / "notes.md").write_text("words")
    assert code_digest([(tmp_path, "**/*.py")]) == first
    code.write_text("2")
    assert code_digest([(tmp_path, "**/*.py")]) != first


def test_only_the_cache_of_this_code_is_kept(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "unfinished.jsonl").write_text("")
    drop_other_caches(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
