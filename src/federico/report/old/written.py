"""Reads a run directory, finished or not, and nothing else: tables, figures, one HTML page."""

from pathlib import Path

from federico.report.old.drawing import render
from federico.report.old.figures import GALLERY
from federico.report.old.page import page
from federico.report.old.summary import Summary, summarize
from federico.report.old.table import as_json, result_table
from federico.runs.atomic import disk_errors, publish_bytes, publish_text
from federico.runs.layout import RunDir

__all__ = ["Summary", "as_json", "result_table", "summarize", "write_report"]


def write_report(path: Path) -> Path:
    """Write `figures/*.png` and `report.html` into a run directory; returns the page."""
    summary = summarize(RunDir(path))
    images = {
        picture.name: render(picture.draw(summary))
        for picture in GALLERY
        if picture.applies(summary)
    }
    folder = path / "figures"
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    for name, png in images.items():
        publish_bytes(folder / f"{name}.png", png)
    publish_text(path / "report.html", page(summary, images))
    return path / "report.html"
