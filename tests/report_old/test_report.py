import base64
import errno
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from federico.errors import RunError
from federico.report.old.figures import Picture
from federico.report.old.written import write_report

PICTURES = {"overview", "rounds", "clients", "collaboration", "partition", "traffic"}


@pytest.fixture(scope="module")
def reported(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = shutil.copytree(simulated, tmp_path_factory.mktemp("copy") / "tiny")
    write_report(run)
    return run


def test_figures_and_page_are_written_whole(reported: Path) -> None:
    images = {file.stem: file.read_bytes() for file in (reported / "figures").iterdir()}
    html = (reported / "report.html").read_text(encoding="utf-8")
    assert images.keys() == PICTURES
    for png in images.values():
        assert png.startswith(b"\x89PNG")
        assert base64.b64encode(png).decode() in html
    assert html.rstrip().endswith("</html>")
    assert list(reported.rglob("*.partial")) == []


@pytest.mark.parametrize(
    ("gallery", "file"),
    [
        ((), "report.html"),
        ((Picture("overview", "", lambda summary: Figure()),), "figures/overview.png"),
    ],
)
def test_a_failed_write_leaves_what_was_there(
    reported: Path, monkeypatch: pytest.MonkeyPatch, gallery: tuple[Picture, ...], file: str
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = (reported / file).read_bytes()
    monkeypatch.setattr("federico.report.old.written.GALLERY", gallery)
    monkeypatch.setattr("federico.runs.atomic.sync", full)
    with pytest.raises(RunError, match=f"{file}: no space left"):
        write_report(reported)
    assert (reported / file).read_bytes() == before
    assert list(reported.rglob("*.partial")) == []


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"{tmp_path}: not a run directory"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []
