from typing import Annotated

from pydantic import Field

from federico.options import ADDED_LATER, Options


class Before(Options):
    size: int = 3


class Now(Before):
    sharp: Annotated[float, ADDED_LATER] = 0.0
    names: Annotated[tuple[str, ...], ADDED_LATER] = Field(default_factory=tuple)


class TableBefore(Options):
    inner: Before = Before()


class Table(Options):
    inner: Now = Now()


def test_an_option_that_was_added_later_counts_only_where_it_is_set() -> None:
    assert Table().as_named(Table().model_dump()) == TableBefore().model_dump()
    sharp = Table(inner=Now(sharp=0.5))
    assert sharp.as_named(sharp.model_dump()) == {"inner": {"size": 3, "sharp": 0.5}}


def test_other_options_count_whatever_their_value_and_so_does_what_is_no_option() -> None:
    assert Table().as_named({"inner": {"size": 3}, "dtype": "x"}) == {
        "inner": {"size": 3},
        "dtype": "x",
    }


def test_what_was_not_dumped_is_not_there() -> None:
    assert Now(sharp=0.5).as_named({"size": 3}) == {"size": 3}
