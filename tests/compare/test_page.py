from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federico.compare.page import html, images_of, section, write_study
from federico.compare.result import Result
from federico.compare.saved import read_saved, this_save, write_saved
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


def test_a_single_row_has_nothing_to_be_seen_beside(played: Any, tiny: Any) -> None:
    assert (
        images_of(tiny(methods=["local"], compare={"paper": {}}), played.folder, played.result)
        == {}
    )


def test_everything_is_written_beside_the_runs(result: Result, tmp_path: Path) -> None:
    page = write_study(StudyDir(tmp_path), result, {"overview": PNG}, ["federico compare t.toml"])
    place = tmp_path / "comparison"
    assert page == place / "report.html"
    found = {str(path.relative_to(place)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"report.html", "table.md", "table.tex", "runs.csv", "figures/overview.png"}
    assert "federico compare t.toml" in page.read_text()
    assert "2 rounds; the paper has 150." in page.read_text()
    assert (place / "table.md").read_text().count("| FedeRiCo |") == 4
    assert "| FedeRiCo, four | " in (place / "table.md").read_text()


def test_names_cannot_break_the_page(result: Result) -> None:
    text = html(replace(result, title="<script>x</script>"), {}, ["a & b"])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "a &amp; b" in text


@pytest.mark.parametrize("note", ["", "It is so.\n"])
def test_the_section_says_what_was_run_and_what_came_out(
    result: Result, tmp_path: Path, note: str
) -> None:
    file = write_saved(
        [this_save("federico compare t.toml", 7)], result, {"overview": PNG}, tmp_path
    )
    text = section(read_saved(file), note, "../results")
    assert text.startswith("## Tiny digits\n")
    assert "**The paper** (Table 0): Together is better." in text
    assert "](../results/tiny-overview.png)" in text
    assert "- 2 rounds; the paper has 150.\n" in text
    assert "\n7 seconds in all, commit " in text
    assert "```\nfederico compare t.toml\n```" in text
    assert ("It is so." in text) == bool(note)
    for entry in result.entries:
        assert result.metric.bare(entry.mean) in text


def test_every_part_of_a_section_has_its_command(result: Result, tmp_path: Path) -> None:
    later = [
        replace(entry, saves=(1,)) if entry.row == "fedavg" else entry for entry in result.entries
    ]
    saves = [
        replace(this_save(command, 7), commit=commit)
        for command, commit in (("one", "aaa"), ("two", "bbb"))
    ]
    text = section(
        read_saved(write_saved(saves, replace(result, entries=later, tuned=[]), {}, tmp_path)),
        "",
        "",
    )
    first, second = text.index("```\none\n```"), text.index("```\ntwo\n```")
    assert "FedAvg" not in text[:first].splitlines()[-2]
    assert "commit aaa" in text[:first].splitlines()[-2]
    assert (
        text[first:second]
        .splitlines()[-2]
        .startswith("FedAvg at the given rate; FedAvg at the best rate: 7 sec")
    )
