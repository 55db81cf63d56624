import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from federico import load
from tests.support.spoilt_models import infinite_away_from_zero, never_a_number, replaced

Command = Callable[..., Any]
ODD = "St. Mary/East <b>"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """New digits."""
    np.savez(tmp_path / "new.npz", x=np.random.default_rng(0).random((5, 64)))
    return tmp_path / "new.npz"


def check(frame: pd.DataFrame, rows: int, labels: list[str], header: str = "prediction") -> None:
    chances = frame[[f"p({label})" for label in labels]].to_numpy()
    assert chances.shape == (rows, len(labels))
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-9)
    assert frame[header].astype(str).tolist() == [labels[best] for best in chances.argmax(1)]


def test_predictions_go_beside_the_file(federico: Command, digits_run: Path, images: Path) -> None:
    answer = federico("predict", digits_run, images, "--client", "0")
    assert answer.code == 0
    target = images.with_name("new-predictions.csv")
    assert answer.out.startswith(f"5 predictions in {target}, by the models of ")
    check(pd.read_csv(target), 5, [str(digit) for digit in range(10)])


def test_parquet_holds_the_same_as_csv(
    federico: Command, digits_run: Path, images: Path, tmp_path: Path
) -> None:
    for suffix in ("csv", "parquet"):
        code = federico(
            "predict", digits_run, images, "--client", "1", "--output", tmp_path / f"out.{suffix}"
        ).code
        assert code == 0
    wide = pd.read_parquet(tmp_path / "out.parquet")
    check(wide, 5, [str(digit) for digit in range(10)])
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "out.csv", dtype={"prediction": str}), wide, check_dtype=False
    )


def test_probabilities_that_nobody_has_calibrated_are_called_so(
    federico: Command, digits_run: Path, images: Path
) -> None:
    ours = federico("predict", digits_run, images, "--client", "0")
    assert "calibrate" not in ours.out
    plain = federico(
        "predict", digits_run, images, "--client", "0", "--method", "local", "--overwrite"
    )
    assert "the probabilities are as the models give them: Local does not calibrate" in plain.out
    for method, calibrated in (("federico", True), ("local", False)):
        answer = federico(
            "predict",
            digits_run,
            images,
            "--client",
            "0",
            "--method",
            method,
            "--overwrite",
            "--json",
        )
        assert json.loads(answer.out)["calibrated"] is calibrated


def test_json_tells_file_rows_and_posterior(
    federico: Command, digits_run: Path, images: Path
) -> None:
    result = json.loads(federico("predict", digits_run, images, "--client", "0", "--json").out)
    assert result["rows"] == 5
    assert Path(result["file"]).exists()
    assert sum(result["posterior"].values()) == pytest.approx(1)


def test_quiet_only_writes(federico: Command, digits_run: Path, images: Path) -> None:
    answer = federico("predict", digits_run, images, "--client", "0", "-q")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_method_is_chosen(federico: Command, digits_run: Path, images: Path) -> None:
    answer = federico("predict", digits_run, images, "--client", "3", "--method", "local")
    assert answer.out.splitlines()[0].endswith("by the models of 3 100%")


def test_nothing_is_overwritten_unasked(
    federico: Command, digits_run: Path, images: Path, tmp_path: Path
) -> None:
    target = tmp_path / "new-predictions.csv"
    target.write_text("precious")
    answer = federico("predict", digits_run, images, "--client", "0")
    assert answer.code == 2
    assert "new-predictions.csv: exists already; name another file" in answer.err
    assert target.read_text() == "precious"
    assert federico("predict", digits_run, images, "--client", "0", "--overwrite").code == 0
    assert target.read_text().startswith("prediction,")


@pytest.mark.parametrize("name", [ODD, "[/b] West"])
def test_table_and_client_of_any_name(
    federico: Command, hospitals: Path, tmp_path: Path, name: str
) -> None:
    new = shutil.copy(hospitals.parent.parent / "people.csv", tmp_path / "new.csv")
    answer = federico("predict", hospitals, new, "--client", name)
    assert answer.code == 0
    assert name in answer.out
    check(pd.read_csv(tmp_path / "new-predictions.csv"), 60, ["no", "yes"], "sick")


def test_rows_of_other_clients_are_counted(
    federico: Command, hospitals: Path, tmp_path: Path
) -> None:
    rows = pd.read_csv(hospitals.parent.parent / "people.csv")
    rows.to_csv(tmp_path / "all.csv", index=False)
    rows[rows.site == "North"].to_csv(tmp_path / "north.csv", index=False)
    rows.assign(site=7).to_csv(tmp_path / "unknown.csv", index=False)

    answer = federico("predict", hospitals, tmp_path / "all.csv", "--client", "North")
    assert "40 of these rows are not of North: they were predicted" in answer.out
    answer = federico("predict", hospitals, tmp_path / "north.csv", "--client", "North")
    assert "rows are not of" not in answer.out
    arguments = ["predict", hospitals, tmp_path / "all.csv", "--client", "North"]
    answer = federico(*arguments, "--overwrite", "--json")
    assert json.loads(answer.out)["rows_of_others"] == 40
    answer = federico("predict", hospitals, tmp_path / "unknown.csv", "--client", "North")
    assert "rows are not of" not in answer.out, "that column did not make clients, as it seems"


def test_clients_folder_alone_is_enough(federico: Command, hospitals: Path, tmp_path: Path) -> None:
    new = shutil.copy(hospitals.parent.parent / "people.csv", tmp_path / "new.csv")
    federico("predict", hospitals, new, "--client", ODD, "--output", "there.csv")
    moved = tmp_path / "on a stick"
    load(hospitals).client(ODD).save(moved)
    assert federico("predict", moved, new, "--output", "here.csv").code == 0
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["new.npz"], 2, "--client: say whose model; "),
        (["new.npz", "--client", "9"], 2, "client '9': there is none of that name in"),
        (
            ["new.npz", "--client", "0", "--output", "a.txt"],
            2,
            "--output a.txt: must end in .csv or .parquet",
        ),
        (["new.npz", "--client", "0", "--method", "fedavg"], 2, "holds no run of 'fedavg'"),
        (
            ["new.npz", "--client", "0", "--seed", "5"],
            2,
            "it has federico (seed 0), local (seed 0)",
        ),
        (["gone.npz", "--client", "0"], 3, "gone.npz: there is no such file"),
        (
            ["wide.npz", "--client", "0"],
            3,
            "wide.npz: inputs of shape (65,), where the model takes (64,)",
        ),
        (["nan.npz", "--client", "0"], 3, "nan.npz: the inputs hold infinite or missing values"),
        (["table.csv", "--client", "0"], 3, "table.csv: this model was not trained on a table"),
        (
            ["new.npz", "--client", "0", "--output", "no/such/folder.csv"],
            4,
            "no/such/folder.csv: cannot be written",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_predicted_is_named(
    federico: Command,
    digits_run: Path,
    images: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 65)))
    np.savez(tmp_path / "nan.npz", x=np.full((2, 64), np.nan))
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    answer = federico("predict", digits_run, *arguments)
    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert said in answer.err
    assert not list(tmp_path.rglob("*prediction*"))


def test_column_that_is_missing_is_named(
    federico: Command, hospitals: Path, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("age\n50\n")
    answer = federico("predict", hospitals, tmp_path / "new.csv", "--client", "North")
    assert answer.code == 3
    assert "new.csv: no column named 'pressure': it holds age" in answer.err


def test_damaged_models_are_named(federico: Command, run: Path, images: Path) -> None:
    file = run / "federico-0" / "clients" / "models.safetensors"
    file.write_bytes(file.read_bytes()[:-4000] + bytes(4000))
    answer = federico("predict", run, images, "--client", "3")
    assert answer.code == 4
    assert "models.safetensors: damaged" in answer.err


def test_regression_writes_values(federico: Command, tmp_path: Path) -> None:
    short = ["--set", "rounds=2", "--set", "seeds=[0]", "--set", "methods=['federico']"]
    federico("run", Path(__file__).parents[2] / "experiments" / "sine.toml", *short, "-q")
    x = np.linspace(0, 6, 4)[:, None]
    np.savez(tmp_path / "new.npz", x=x, y=np.sin(x))
    answer = federico("predict", "runs/sine", "new.npz", "--client", "3", "--collaborators")
    assert answer.code == 0
    assert "RMSE" in answer.out
    assert "on 4 rows with a label" in answer.out
    assert "away from what the model of 3 (alone) predicts, on average: " in answer.out
    frame = pd.read_csv(tmp_path / "new-predictions.csv")
    client = load("runs/sine").client("3")
    assert list(frame.columns) == ["prediction", *[f"by({name})" for name in client.posterior]]
    alone = frame.drop(columns="prediction").to_numpy()
    mixed = alone @ np.array(list(client.posterior.values()))
    np.testing.assert_allclose(frame["prediction"], mixed, atol=1e-9)
    assert np.isfinite(frame["prediction"]).all()


def test_nothing_is_predicted_where_no_model_is_a_number(
    federico: Command, digits_run: Path, images: Path, tmp_path: Path
) -> None:
    folder = replaced(digits_run, "0", tmp_path / "spoilt", never_a_number)
    answer = federico("predict", folder, images)
    assert answer.code == 4
    assert "none of its models has a finite answer for any of the 5 rows" in answer.err
    assert not list(tmp_path.glob("*prediction*"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_without_an_answer_have_no_label_and_are_counted(
    federico: Command, digits_run: Path, tmp_path: Path, suffix: str
) -> None:
    folder = replaced(digits_run, "0", tmp_path / "spoilt", infinite_away_from_zero)
    x = np.zeros((5, 64))
    x[[1, 3]] = 1.0
    np.savez(tmp_path / "new.npz", x=x, y=np.zeros(5, dtype=int))
    out = tmp_path / f"out.{suffix}"
    answer = federico("predict", folder, tmp_path / "new.npz", "--output", out)
    assert answer.code == 0
    assert "2 rows have no prediction" in answer.out
    assert "on 5 rows with a label" in answer.out
    frame = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert frame["prediction"].isna().tolist() == [False, True, False, True, False]
    assert frame["p(0)"].isna().tolist() == [False, True, False, True, False]

    summary = federico("predict", folder, tmp_path / "new.npz", "--json", "--output", f"b.{suffix}")
    assert json.loads(summary.out)["rows_without_prediction"] == 2


def test_collaborators_that_disagree_on_new_rows_are_named(
    federico: Command, digits_run: Path, images: Path, tmp_path: Path
) -> None:
    client = load(digits_run).client("3")
    apart = client.disagreement(np.load(images)["x"])
    assert set(apart) == set(client.posterior) - {"3", "3 (alone)"}

    output = str(tmp_path / "answers.csv")
    told = federico("predict", digits_run, images, "--client", "3", "--json", "--output", output)
    assert json.loads(told.out)["disagreement"] == pytest.approx(apart)
