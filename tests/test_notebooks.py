"""The notebooks run, and what is stored in them is what they gave."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

from federico.starters import EXAMPLES

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((EXAMPLES / "notebook").glob("*.ipynb"))


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds_of_output(cell: nbformat.NotebookNode) -> set[str]:
    return {kind for output in cell.outputs for kind in output.get("data", {output.output_type: 0})}


@pytest.mark.filterwarnings("default")  # those of the kernel's packages are not ours
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_without_data_and_shows_what_is_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("run_notebooks", DOCS / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    run_notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run_notebooks)
    monkeypatch.delenv("FEDERICO_DATA", raising=False)

    stored = code_cells(nbformat.read(path, as_version=4))
    now = code_cells(run_notebooks.executed(path, tmp_path))
    assert [cell.execution_count for cell in stored] == list(range(1, len(stored) + 1))
    for before, after in zip(stored, now, strict=True):
        assert kinds_of_output(before) == kinds_of_output(after), before.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_links_only_what_lies_beside_it_and_names_no_machine(path: Path) -> None:
    """It is written into folders of users, who need not have these pages."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#]+)", cell.source):
                assert (path.parent / target).exists(), target
    assert not re.search(r"/(home|tmp|work|Users)/", path.read_text())
