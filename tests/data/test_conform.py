import numpy as np
import pytest

from federico.data.conform import conform
from federico.data.dataset import Dataset, Samples, Schema, TableColumn
from federico.errors import DataError

AGREED = Schema(
    "classification",
    (4,),
    2,
    ("well", "ill"),
    (TableColumn("age"), TableColumn("sex", ("f", "m", "x"))),
)


def table(
    labels: tuple[str, ...] = ("ill", "well"), sexes: tuple[str, ...] = ("m", "f")
) -> Dataset:
    """A site that lists everything in an order of its own, and has a gap in its third row."""
    columns = (TableColumn("sex", sexes), TableColumn("age"))
    x = np.array([[1.0, 0, 30], [0, 1, 40], [np.nan, np.nan, 50]])
    schema = Schema("classification", (3,), 2, labels, columns)
    return Dataset(Samples(x, np.array([0, 1, 1])), schema, np.array(["a", "b", "c"]))


def test_columns_and_choices_take_the_agreed_places() -> None:
    found = conform(table(), AGREED)
    np.testing.assert_array_equal(
        found.samples.x, [[30, 0, 1, 0], [40, 1, 0, 0], [50, np.nan, np.nan, np.nan]]
    )
    assert found.schema == AGREED
    assert found.owners is not None
    assert found.owners.tolist() == ["a", "b", "c"]


def test_labels_take_the_agreed_numbers() -> None:
    assert conform(table(), AGREED).samples.y.tolist() == [1, 0, 0]


def test_a_column_that_is_all_gaps_stays_gaps() -> None:
    dataset = Dataset(
        Samples(np.array([[30.0], [40.0]]), np.array([0, 0])),
        Schema("classification", (1,), 1, ("ill",), (TableColumn("sex", ()), TableColumn("age"))),
    )
    np.testing.assert_array_equal(
        np.isnan(conform(dataset, AGREED).samples.x), [[False, True, True, True]] * 2
    )


@pytest.mark.parametrize(
    ("dataset", "agreed", "reason"),
    [
        (table(("ill", "dead")), AGREED, "label 'dead' is not one .*: well, ill"),
        (table(sexes=("m", "w")), AGREED, "category of column 'sex' 'w'"),
        (
            table(),
            Schema("classification", (1,), 2, ("well", "ill"), (TableColumn("age"),)),
            "'sex' .* 'ignore'",
        ),
        (
            table(),
            Schema(
                "classification", (2,), 2, ("well", "ill"), (TableColumn("age"), TableColumn("bmi"))
            ),
            "named 'bmi'",
        ),
        (
            table(),
            Schema(
                "classification", (2,), 2, ("well", "ill"), (TableColumn("age"), TableColumn("sex"))
            ),
            "'sex' .*number",
        ),
        (
            table(),
            Schema("regression", (4,), 1),
            "for classification, the federation agreed on regression",
        ),
        (
            table(),
            Schema("classification", (64,), 2, ("well", "ill")),
            r"shape \(3,\), .* agreed on \(64,\)",
        ),
    ],
)
def test_what_was_not_agreed_is_named(dataset: Dataset, agreed: Schema, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        conform(dataset, agreed)


def test_values_to_predict_are_counted() -> None:
    dataset = Dataset(Samples(np.zeros((2, 3)), np.zeros((2, 2))), Schema("regression", (3,), 2))
    assert conform(dataset, Schema("regression", (3,), 2)).schema.outputs == 2
    with pytest.raises(DataError, match="2 values to predict"):
        conform(dataset, Schema("regression", (3,), 1))


def test_arrays_are_refused_where_a_table_was_agreed_on() -> None:
    schema = Schema("classification", (4,), 2, ("well", "ill"))
    arrays = Dataset(Samples(np.zeros((2, 4)), np.array([0, 1])), schema)
    with pytest.raises(DataError, match="no column named 'age', which the federation agreed on"):
        conform(arrays, AGREED)


def test_a_table_is_refused_where_no_columns_were_agreed_on() -> None:
    with pytest.raises(DataError, match="it is a table, but the federation agreed on no columns"):
        conform(table(), Schema("classification", (3,), 2, ("well", "ill")))
