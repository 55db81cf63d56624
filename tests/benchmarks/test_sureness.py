"""The benchmark that asks whether clients are right in how sure they are."""

from pathlib import Path

import pytest

from benchmarks.sureness import Said, main, read, table


def said(chance: float, gain_in_loss: float, gain: float) -> Said:
    return Said("rings", 7, "c0", chance, gain_in_loss, gain)


def test_each_side_is_counted_by_how_sure_clients_were_of_it() -> None:
    lines = table(
        [
            said(0.95, 0.2, 0.01),
            said(0.93, 0.1, -0.01),
            said(0.85, -0.1, 0.0),
            said(0.1, -0.1, -0.02),
            said(1.0, 0.3, 0.1),
        ]
    ).splitlines()
    assert lines[2:] == [
        "| 80 to 90 %, together | 1 | 85 % | 0 % | 50 % |",
        "| 90 to 100 %, together | 3 | 96 % | 100 % | 67 % |",
        "| 90 to 100 %, alone | 1 | 90 % | 100 % | 100 % |",
    ]


def test_what_is_kept_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "said.json"
    asked = ["--only", "wine_alike", "--seeds", "0", "--save", str(file)]
    main(asked)
    first = capsys.readouterr().out
    kept = read(file)
    assert list(kept) == ["wine_alike 0"]
    assert all(0 <= each.chance <= 1 for each in kept["wine_alike 0"])
    written = file.stat().st_mtime_ns

    main(asked)
    assert capsys.readouterr().out == first
    assert file.stat().st_mtime_ns == written
