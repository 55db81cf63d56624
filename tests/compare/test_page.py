from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federico.compare.page import html, images_of, section, write_study
from federico.compare.result import Result
from federico.compare.saved import read_saved, save
from federico.compare.studydir import StudyDir

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_study_of_methods_has_an_overview_and_its_cost(played: Any) -> None:
    images = images_of(played.study, played.folder, played.result)
    assert list(images) == ["overview", "cost"]
    assert all(png.startswith(PNG) for png in images.values())


def test_variants_of_one_method_have_no_cost_figure(played: Any, tiny: Any) -> None:
    rows = [{"name": "federico"}, {"name": "other", "method": "federico"}]
    variants = tiny({"rows": rows, "paper": {}})
    assert list(images_of(variants, played.folder, played.result)) == ["overview"]


def test_everything_is_written_beside_the_runs(result: Result, tmp_path: Path) -> None:
    page = write_study(StudyDir(tmp_path), result, {"overview": PNG}, "federico compare t.toml")
    assert page == tmp_path / "report.html"
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"report.html", "table.md", "table.tex", "runs.csv", "figures/overview.png"}
    assert "federico compare t.toml" in page.read_text()
    assert "2 rounds; the paper has 150." in page.read_text()
    assert (tmp_path / "table.md").read_text().count("| FedeRiCo |") == 4


def test_names_cannot_break_the_page(result: Result) -> None:
    text = html(replace(result, title="<script>x</script>"), {}, "a & b")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "a &amp; b" in text


@pytest.mark.parametrize("note", ["", "It is so.\n"])
def test_the_section_says_what_was_run_and_what_came_out(
    played: Any, result: Result, tmp_path: Path, note: str
) -> None:
    file = save(played.study, played.folder, result, {"overview": PNG}, "federico compare t.toml", tmp_path)
    text = section(read_saved(file), note, "../results")
    assert text.startswith("## Tiny digits\n")
    assert "**The paper** (Table 0): Together is better." in text
    assert "](../results/tiny-overview.png)" in text
    assert "- 2 rounds; the paper has 150.\n" in text
    assert "```\nfederico compare t.toml\n```" in text
    assert ("It is so." in text) == bool(note)
    for entry in result.entries:
        assert result.metric.bare(entry.mean) in text
