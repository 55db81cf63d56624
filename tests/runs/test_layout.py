import json
import multiprocessing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from federico.errors import RunError
from federico.runs.layout import CellDir, Description, RunDir
from federico.stopwatch import Spent


def describe(**changes: object) -> Description:
    about = Description(
        method="federico",
        seed=0,
        task="classification",
        clients=["a", "b"],
        distribution=None,
        train_samples=[4, 4],
        test_samples=[1, 1],
        label_names=["no", "yes"],
        label_counts=[[2, 2], [3, 1]],
        model_parameters=10,
        model_bytes=40,
        data_hash="d0",
        partition_hash="p0",
        options={"federico": {"epsilon": 0.3, "momentum": 0.6}, "dtype": "float32"},
        versions={"torch": "2"},
        command="federico run a.toml",
    )
    return replace(about, **changes)  # type: ignore[arg-type]


@pytest.fixture
def cell(tmp_path: Path) -> CellDir:
    """A cell that has said what it is."""
    path = RunDir(tmp_path).cell("federico", 0).path
    path.mkdir()
    CellDir(path).describe(describe())
    return CellDir(path)


def test_description_comes_back(cell: CellDir) -> None:
    assert cell.description == describe()


def test_same_experiment_may_go_on_with_other_versions_and_another_command(cell: CellDir) -> None:
    cell.describe(describe(versions={"torch": "3"}, command="elsewhere"))
    assert CellDir(cell.path).description.command == "federico run a.toml", "the first one stays"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"options": {"federico": {"epsilon": 0.3, "momentum": 0.9}, "dtype": "float32"}},
            r"federico\.momentum was 0\.6, now 0\.9",
        ),
        (
            {"options": {"federico": {"epsilon": 0.1, "momentum": 0.9}, "dtype": "float64"}},
            "dtype was 'float32', now 'float64'",
        ),
        ({"data_hash": "d1"}, "the data is not what it was"),
        (
            {"partition_hash": "p1"},
            "samples are divided otherwise among clients",
        ),
    ],
)
def test_other_experiment_is_refused_with_the_first_difference(
    cell: CellDir, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(
        RunError,
        match=rf"federico-0: holds another experiment \({said}\)\. Choose another name",
    ):
        cell.describe(describe(**changes))


def test_cell_is_not_done_until_it_says_so(cell: CellDir) -> None:
    assert cell.rounds_done == 0
    cell.finish(7)
    assert cell.rounds_done == 7


def test_unreadable_cell_is_named(cell: CellDir) -> None:
    (cell.path / "cell.json").write_text("{")
    with pytest.raises(RunError, match=r"cell\.json: cannot be read"):
        _ = CellDir(cell.path).description


def test_cells_are_those_that_have_begun_in_order(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    for method, seed in (("local", 0), ("federico", 10), ("federico", 9)):
        cell = run.cell(method, seed)
        cell.path.mkdir()
        cell.describe(describe(method=method, seed=seed))
    (tmp_path / "figures").mkdir()
    assert [found.path.name for found in run.cells()] == ["federico-9", "federico-10", "local-0"]
    assert RunDir(tmp_path / "nowhere").cells() == []


def _try_to_lock(path: Path, answer: "multiprocessing.Queue[str]") -> None:
    try:
        with RunDir(path).locked():
            answer.put("free")
    except RunError as error:
        answer.put(str(error))


def _ask_another_process(path: Path) -> str:
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.Queue[str] = context.Queue()
    other = context.Process(target=_try_to_lock, args=(path, answer))
    other.start()
    text = answer.get(timeout=20)
    other.join()
    return text


def test_second_process_is_kept_out_while_the_first_writes(tmp_path: Path) -> None:
    with RunDir(tmp_path / "run").locked():
        assert "another process is running this experiment" in _ask_another_process(
            tmp_path / "run"
        )
        assert _ask_another_process(tmp_path / "other") == "free"
    assert _ask_another_process(tmp_path / "run") == "free"


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(RunError, match="run: cannot be written"),
        RunDir(tmp_path / "file" / "run").locked(),
    ):
        pass


def test_records_and_seconds_are_those_of_the_files(cell: CellDir) -> None:
    spent = Spent({"pull": 0.5}, {"pull": 0.25})
    (cell.path / "timings.jsonl").write_text(json.dumps({"round": 1} | asdict(spent)) + "\n")
    assert cell.spent == [spent]
    assert cell.records == []
