import math
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.errors import ProtocolError
from federico.network.wire.header import SIZE, Kind, MessageHeader

HASH, U16, U32, U64 = (
    st.binary(min_size=32, max_size=32),
    *(st.integers(0, 2**bits - 1) for bits in (16, 32, 64)),
)
HEADERS = st.builds(
    MessageHeader, st.sampled_from(Kind), HASH, HASH, U16, U16, U32, U32, U64, st.floats(0, 1e300), U64, U32, HASH,
    st.binary(min_size=16, max_size=16),
)  # fmt: skip


@given(header=HEADERS)
def test_a_header_comes_back_as_it_was(header: MessageHeader) -> None:
    data = header.encode()
    assert len(data) == SIZE
    assert MessageHeader.decode(data) == header


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_another_length_is_no_header(header: MessageHeader, size: int) -> None:
    with pytest.raises(ProtocolError, match=f"{size} bytes"):
        MessageHeader.decode((header.encode() * 2)[:size])


@pytest.mark.parametrize(
    ("place", "byte", "reason"),
    [(0, 0, "not a message"), (4, 9, "version 9"), (5, 0, "kind"), (6, 1, "not a message")],
)
def test_each_fixed_field_has_its_reason(
    header: MessageHeader, place: int, byte: int, reason: str
) -> None:
    data = bytearray(header.encode())
    data[place] = byte
    with pytest.raises(ProtocolError, match=reason):
        MessageHeader.decode(bytes(data))


@pytest.mark.parametrize("coefficient", [-1.0, math.nan, math.inf])
def test_a_coefficient_is_a_weight(header: MessageHeader, coefficient: float) -> None:
    with pytest.raises(ProtocolError, match="coefficient"):
        MessageHeader.decode(replace(header, coefficient=coefficient).encode())


def test_a_requirement_names_the_field_that_differs(header: MessageHeader) -> None:
    header.require(owner=1, federation=b"f" * 32)
    with pytest.raises(ProtocolError, match="federation: another"):
        header.require(federation=b"g" * 32)
    with pytest.raises(ProtocolError, match="owner: 1, not 3"):
        header.require(owner=3)


def test_a_field_that_does_not_fit_is_our_own_mistake(header: MessageHeader) -> None:
    with pytest.raises(struct.error):
        replace(header, owner=2**16).encode()
