"""Run the notebooks of `federico init notebook` and store their outputs in them.

Usage: python docs/run_notebooks.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "src" / "federico" / "examples" / "notebook"
SECONDS = 300
"""How long a cell may take."""


def executed(notebook: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with new outputs, run in this folder; an error in a cell is raised."""
    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        content,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    client.execute()
    return content


def main() -> None:
    """Run every notebook in an empty folder, so that no path of this machine is in it."""
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        with TemporaryDirectory() as folder:
            content = executed(notebook, Path(folder))
        # Which Python ran it is nobody's business.
        content.metadata.pop("language_info", None)
        nbformat.write(content, notebook)


if __name__ == "__main__":
    main()
