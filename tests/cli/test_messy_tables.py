"""A table as people have it, tried as a new user would: it works, or one line says what to do.

It has ids, gaps, decimal commas, spaces at the end of texts, dates, and was saved as latin-1.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from federico import load
from federico.errors import DataError
from tests.cli.conftest import run_inside

Command = Callable[..., Any]

HEADER = "Fall;Klinik;Aufnahme;Alter;Größe;Wohnung;krank"
EXPERIMENT = """
methods = ["federico"]
rounds = 2
partition = { kind = "natural" }
model = { kind = "linear" }
federico = { neighbors = 1 }
system = { threads = 1 }

[data]
kind = "table"
path = "leute.csv"
label = "krank"
client = "Klinik"
"""
SETTINGS = [
    "encoding = 'latin-1'",
    "separator = ';'",
    "decimal = ','",
    "ignore = ['Aufnahme']",
    "categorical = ['Wohnung']",
    "id = ['Fall']",
]


def people(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(count):
        age = "" if k % 11 == 0 else f"{rng.normal(60, 12):.1f}".replace(".", ",")
        size = f"{rng.normal(1.7, 0.1):.2f}".replace(".", ",")
        home = " " if k % 13 == 0 else ["zu Hause", "Heim ", "Straße"][k % 3]
        sick = "ja" if k % 5 < 2 else "nein"
        clinic = ["Graz", "Wien"][k % 2]
        lines.append(f"{k:05d};{clinic};2024-03-{k % 28 + 1:02d};{age};{size};{home};{sick}")
    return lines


def write_table(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="latin-1")


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the table."""
    folder = tmp_path_factory.mktemp("clinics")
    write_table(folder / "leute.csv", people(80))
    (folder / "wards.toml").write_text(EXPERIMENT + "\n".join(SETTINGS))
    return run_inside(folder, "wards.toml")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """New rows, with labels."""
    write_table(tmp_path / "neu.csv", people(20, seed=1))
    return tmp_path / "neu.csv"


def changed(file: Path, old: str, new: str) -> None:
    content = file.read_text(encoding="latin-1")
    assert old in content
    file.write_text(content.replace(old, new), encoding="latin-1")


@pytest.mark.parametrize(
    ("settled", "said"),
    [
        (0, "is not utf-8 text (invalid start byte at byte 29): set encoding to 'latin-1'"),
        (1, "if fields are not separated by ',', set separator to ';'"),
        (2, "columns hold texts that are not numbers: 'Aufnahme' ('2024-03-01' in row 1), "),
        (
            4,
            "row 2: column 'Wohnung' holds 'Heim', which is not a number: name the column in 'i",
        ),
    ],
)
def test_every_setting_that_is_missing_is_named_in_turn(
    federico: Command, tmp_path: Path, settled: int, said: str
) -> None:
    write_table(tmp_path / "leute.csv", people(80))
    (tmp_path / "wards.toml").write_text(EXPERIMENT + "\n".join(SETTINGS[:settled]))
    answer = federico("run", "wards.toml", "--set", f"data.path={tmp_path / 'leute.csv'}", "-q")
    assert answer.code == 3
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert not Path("runs").exists()


def test_decimal_commas_that_nobody_named_are_explained(federico: Command, tmp_path: Path) -> None:
    write_table(tmp_path / "leute.csv", people(80))
    settings = [line for line in SETTINGS if not line.startswith("decimal")]
    (tmp_path / "wards.toml").write_text(EXPERIMENT + "\n".join(settings))
    answer = federico("run", "wards.toml", "--set", f"data.path={tmp_path / 'leute.csv'}", "-q")
    assert answer.code == 3
    assert "if the comma is the decimal mark, set decimal to ','" in answer.err


def test_ids_go_through_and_the_target_names_its_column(
    federico: Command, clinics: Path, new: Path, tmp_path: Path
) -> None:
    answer = federico("predict", clinics, new, "--client", "Graz")
    assert answer.code == 0
    frame = pd.read_csv(tmp_path / "neu-predictions.csv", dtype={"Fall": str})
    assert list(frame.columns) == ["Fall", "krank", "p(ja)", "p(nein)"]
    assert frame["Fall"].tolist() == [f"{k:05d}" for k in range(20)]

    client = load(clinics).client("Graz")
    np.testing.assert_array_equal(frame["krank"], client.predict(client.read(new)))


def test_other_columns_are_copied_if_asked_for(
    federico: Command, clinics: Path, new: Path, tmp_path: Path
) -> None:
    chosen = ["--id", "Aufnahme", "--id", "Klinik", "--output", "out.parquet"]
    assert federico("predict", clinics, new, "--client", "Graz", *chosen).code == 0
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert list(frame.columns) == ["Aufnahme", "Klinik", "krank", "p(ja)", "p(nein)"]
    assert frame["Klinik"].tolist() == ["Graz", "Wien"] * 10


def test_ids_are_copied_as_they_are(federico: Command, clinics: Path, new: Path) -> None:
    changed(new, "00001;", "NA;")
    changed(new, "00002;", ";")
    changed(new, "00003;", "=1+1;")
    assert federico("predict", clinics, new, "--client", "Graz", "--output", "-").code == 0
    lines = federico("predict", clinics, new, "--client", "Graz", "--output", "-").out.splitlines()
    assert [line.split(",")[0] for line in lines[1:6]] == ["00000", "NA", "", "'=1+1", "00004"]


def test_rows_with_labels_are_scored(federico: Command, clinics: Path, new: Path) -> None:
    changed(new, "ja\n", "vielleicht\n")
    write_table(new, [*new.read_text(encoding="latin-1").splitlines()[1:], people(1)[0][:-4]])
    answer = federico("predict", clinics, new, "--client", "Wien", "--json", "--output", "o.csv")
    score = json.loads(answer.out)["score"]
    frame = pd.read_csv("o.csv")
    assert len(frame) == 21
    truth = pd.read_csv(new, sep=";", encoding="latin-1")["krank"]
    known = truth == "nein"
    assert score["rows"] == known.sum() == 12
    assert score["accuracy"] == (frame["krank"][known] == "nein").mean()
    assert score["loss"] == pytest.approx(-np.log(frame["p(nein)"][known]).mean())

    spoken = federico("predict", clinics, new, "--client", "Wien", "--overwrite").out
    assert "on 12 rows with a label" in spoken
    assert "8 rows have a label that the model does not know" in spoken


def test_a_file_without_labels_has_no_score(federico: Command, clinics: Path, new: Path) -> None:
    changed(new, ";krank", ";Bemerkung")
    answer = federico("predict", clinics, new, "--client", "Wien")
    assert answer.code == 0
    assert "accuracy" not in answer.out


def test_an_unknown_category_is_an_error_or_missing(
    federico: Command, clinics: Path, new: Path, tmp_path: Path
) -> None:
    changed(new, "Heim ", "Zelt")
    answer = federico("predict", clinics, new, "--client", "Graz")
    assert answer.code == 3
    assert "neu.csv: row 2: column 'Wohnung' holds 'Zelt', known are Heim, Straße, zu" in answer.err
    assert "--unknown missing" in answer.err
    assert [file.name for file in tmp_path.iterdir()] == ["neu.csv"]

    as_missing = ["--unknown", "missing", "--output", "unknown.csv"]
    assert federico("predict", clinics, new, "--client", "Graz", *as_missing).code == 0
    changed(new, "Zelt", "")
    assert federico("predict", clinics, new, "--client", "Graz", "--output", "gaps.csv").code == 0
    assert Path("unknown.csv").read_bytes() == Path("gaps.csv").read_bytes()


def test_another_format_than_in_training_is_an_option(
    federico: Command, clinics: Path, new: Path, tmp_path: Path
) -> None:
    lines = new.read_text(encoding="latin-1").replace(",", ".").replace(";", "\t")
    (tmp_path / "us.tsv").write_text(lines, encoding="utf-8")
    where = [clinics, "us.tsv", "--client", "Graz"]
    only_one = federico("predict", *where).err
    assert "only one column was found" in only_one
    assert "say --separator '\\t' (in Python separator='\\t')" in only_one
    assert "no column named 'Größe'" in federico("predict", *where, "--separator", r"\t").err
    options = ["--separator", r"\t", "--encoding", "utf-8"]
    answer = federico("predict", *where, *options)
    assert "remove the points between thousands, or say --decimal '.'" in answer.err
    assert federico("predict", *where, *options, "--decimal", ".").code == 0
    federico("predict", clinics, new, "--client", "Graz")
    assert Path("us-predictions.csv").read_bytes() == Path("neu-predictions.csv").read_bytes()


def test_a_file_that_is_probably_utf_8_is_not_read_as_latin_1_in_silence(
    federico: Command, tmp_path: Path
) -> None:
    lines = [f"fall-{k},{k % 7},{k % 2}" for k in range(40)]
    content = "\n".join(["id,x,y", *lines]) + "\n"
    (tmp_path / "old.csv").write_text(content.replace("fall-3,", "f\xe4ll-3,"), encoding="latin-1")
    (tmp_path / "old.toml").write_text(
        "rounds = 1\nmethods = ['local']\npartition = {kind = 'iid', clients = 2}\n"
        "model = {kind = 'linear'}\n[data]\nkind = 'table'\npath = 'old.csv'\n"
        "label = 'y'\nid = ['id']\nencoding = 'latin-1'\n"
    )
    trained = federico("run", "old.toml")
    assert trained.code == 0, trained.err
    assert "UTF-8" not in trained.err

    (tmp_path / "new.csv").write_text(content.replace("fall-3,", "f\xe4ll-3,"), encoding="utf-8")
    where = ["runs/old", "new.csv", "--client", "0", "--method", "local"]
    answer = federico("predict", *where)
    assert answer.code == 0
    hint = "is read as latin-1, but looks like UTF-8: if letters are wrong, say --encoding 'utf-8'"
    assert f"warning: new.csv {hint}" in answer.err
    client = load("runs/old").client("0", method="local")
    with pytest.warns(UserWarning, match="looks like UTF-8"):
        client.read("new.csv")

    answer = federico("predict", *where, "--encoding", "utf-8", "--overwrite")
    assert answer.err == ""
    assert "f\xe4ll-3" in Path("new-predictions.csv").read_text(encoding="utf-8")

    (tmp_path / "old.csv").write_text((tmp_path / "new.csv").read_text(), encoding="utf-8")
    again = federico("run", "old.toml", "--name", "again")
    assert "old.csv is read as latin-1, but looks like UTF-8" in again.err


def test_standard_input_to_standard_output(
    federico: Command, clinics: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federico("predict", clinics, new, "--client", "Graz")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(new.read_bytes())))
    answer = federico("predict", clinics, "-", "--client", "Graz")
    assert answer.code == 0
    assert answer.out == Path("neu-predictions.csv").read_text()
    assert answer.err.startswith("20 predictions, by the models of ")


def test_a_table_is_read_and_written_in_pieces(
    federico: Command, clinics: Path, tmp_path: Path
) -> None:
    lines = people(12_000)
    write_table(tmp_path / "viele.csv", lines)
    for output in ("all.csv", "all.parquet"):
        where = [clinics, "viele.csv", "--client", "Graz", "--output", output]
        assert federico("predict", *where).code == 0
    frame = pd.read_csv("all.csv", dtype={"Fall": str})
    assert frame["Fall"].tolist() == [line[:5] for line in lines]
    client = load(clinics).client("Graz")
    at_once = client.probabilities(client.read(tmp_path / "viele.csv"))
    np.testing.assert_allclose(frame[["p(ja)", "p(nein)"]], at_once, atol=1e-12)
    pd.testing.assert_frame_equal(pd.read_parquet("all.parquet"), frame, check_dtype=False)

    lines[11_500] = lines[11_500].replace(";1,", ";klein,")
    write_table(tmp_path / "viele.csv", lines)
    answer = federico("predict", clinics, "viele.csv", "--client", "Graz")
    assert answer.code == 3
    assert "row 11501: column 'Größe' holds 'klein," in answer.err
    assert not Path("viele-predictions.csv").exists()


MEGABYTE = 2**20
MORE_AT_MOST = 20 * MEGABYTE
"""The memory that ten times the rows may take beyond that of the rows."""


def write_long_notes(path: Path, rows: int) -> None:
    """A table with a column that the model does not read: 250 bytes a row."""
    lines = [f"{line};{'nichts Neues ' * 15}" for line in people(500)]
    with path.open("w", encoding="latin-1") as file:
        file.write(f"{HEADER};Notiz\n")
        for _ in range(rows // len(lines)):
            file.write("\n".join(lines) + "\n")


def peak_of_predicting(run: Path, file: Path) -> int:
    """The most memory that a process takes which predicts the rows of a file, in bytes."""
    command = [sys.executable, "-m", "federico", "predict", run, file, "--client", "Graz", "-q"]
    process = subprocess.Popen([str(word) for word in command], cwd=file.parent)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def test_ten_times_the_rows_take_no_more_memory(clinics: Path, tmp_path: Path) -> None:
    peaks = []
    for rows in (15_000, 150_000):
        file = tmp_path / f"{rows}.csv"
        write_long_notes(file, rows)
        peaks.append(peak_of_predicting(clinics, file))
        predicted = (tmp_path / f"{rows}-predictions.csv").read_text().count("\n") - 1
        assert predicted == rows
    assert file.stat().st_size > 1.5 * MORE_AT_MOST, "the table alone would not fit"
    assert peaks[1] - peaks[0] < MORE_AT_MOST, [peak // MEGABYTE for peak in peaks]


def test_collaborators_of_each_row_on_request(
    federico: Command, clinics: Path, new: Path, tmp_path: Path
) -> None:
    answer = federico("predict", clinics, new, "--client", "Graz", "--collaborators")
    assert answer.code == 0
    frame = pd.read_csv(tmp_path / "neu-predictions.csv")
    client = load(clinics).client("Graz")
    shares = frame[[f"by({owner})" for owner in client.posterior]].to_numpy()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-9)
    assert np.ptp(shares, axis=0).max() > 1e-6, "who decides differs from row to row"
    assert shares.shape[1] > 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--id", "krank"], 2, "--id krank: is the name of a column of the predictions"),
        (["--id", "Nummer"], 3, "no column named 'Nummer': it holds Fall, Klinik"),
        (["--separator", ";;"], 2, "--separator ;;: give one character, such as ';'"),
        (["--encoding", "klingon"], 2, "encoding: 'klingon' is none that Python knows"),
        (["--output", "-", "--json"], 2, "--json: predictions go to standard output already"),
    ],
)
def test_options_that_cannot_be_are_named(
    federico: Command, clinics: Path, new: Path, arguments: list[str], code: int, said: str
) -> None:
    answer = federico("predict", clinics, new, "--client", "Graz", *arguments)
    assert answer.code == code
    assert said in answer.err
    assert not list(Path().glob("*predictions*"))


def test_a_frame_in_python_is_read_alike(clinics: Path) -> None:
    client = load(clinics).client("Graz")
    texts = pd.DataFrame(
        {"Alter": [50.0, 61.0], "Größe": [1.7, 1.8], "Wohnung": ["Heim ", "Zelt"]},
        index=["visit 7", "visit 9"],
    )
    with pytest.raises(DataError, match=r"row visit 9: .* 'Zelt', known are .* unknown='missing'"):
        client.predict(texts)
    found = client.probabilities(texts, unknown="missing")
    plain = texts.assign(Wohnung=["Heim", None])
    np.testing.assert_array_equal(found, client.probabilities(plain))
    shares = client.decided_by(texts, unknown="missing")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert list(shares.index) == ["visit 7", "visit 9"]
