import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from federico.errors import ProtocolError
from federico.network.wire.encoding import WIDTHS, pack, square_sum, unpack

ROUNDING = {
    "float16": (2**-10, 1e-7),
    "bfloat16": (2**-7, 1e-38),
    "float32": (0, 0),
    "float64": (0, 0),
}
"""Relative error, and absolute error of numbers next to zero."""
ROWS = arrays.arrays(np.float32, st.integers(1, 50), elements=st.floats(-1e4, 1e4, width=32))


@pytest.mark.parametrize("wire", WIDTHS)
@given(row=ROWS)
def test_a_row_comes_back_as_exactly_as_its_numbers_can_say_it(wire: str, row: np.ndarray) -> None:
    out = np.full_like(row, np.nan)
    square = unpack(pack(row, wire).tobytes(), wire, out)
    relative, absolute = ROUNDING[wire]
    np.testing.assert_allclose(out, row, rtol=relative, atol=absolute)
    assert square == pytest.approx(
        float(np.dot(out.astype(float), out.astype(float))), rel=1e-4, abs=1e-12
    )


@given(row=ROWS)
def test_bfloat16_rounds_as_torch_does(row: np.ndarray) -> None:
    theirs = torch.from_numpy(row).bfloat16().view(torch.int16).numpy()
    assert np.array_equal(pack(row, "bfloat16").view(np.int16), theirs)


@pytest.mark.parametrize("wire", WIDTHS)
def test_numbers_too_large_for_the_wire_do_not_become_infinite(wire: str) -> None:
    row, out = np.array([1e6, -1e6], np.float32), np.empty(2, np.float32)
    unpack(pack(row, wire).tobytes(), wire, out)
    assert np.abs(out).min() > 6e4


def test_a_row_of_the_wires_own_numbers_is_not_copied() -> None:
    row = np.ones(5, np.float32)
    assert pack(row, "float32") is row


@pytest.mark.parametrize("wire", WIDTHS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_number_that_is_none_is_refused(wire: str, bad: float) -> None:
    row = np.array([1.0, bad, 2.0])
    numbers = (
        pack(row, wire) if wire != "float16" else row.astype(np.float16)
    )  # packing would saturate
    with pytest.raises(ProtocolError, match="not finite"):
        unpack(numbers.tobytes(), wire, np.empty(3))


def test_a_number_beyond_all_models_is_refused() -> None:
    with pytest.raises(ProtocolError, match="far too large"):
        unpack(np.full(3, 1e25, np.float32).tobytes(), "float32", np.empty(3, np.float32))


@pytest.mark.parametrize("wire", WIDTHS)
@pytest.mark.parametrize("extra", [-1, 1, 1000])
def test_another_number_of_bytes_is_refused_before_they_are_read(wire: str, extra: int) -> None:
    out = np.zeros(4, np.float32)
    with pytest.raises(ProtocolError, match="belong"):
        unpack(b"\x01" * (4 * WIDTHS[wire] + extra), wire, out)
    assert not out.any()


def test_half_precision_squares_do_not_overflow() -> None:
    assert square_sum(np.full(4, 6e4, np.float16)) == pytest.approx(4 * 6e4**2, rel=1e-3)
