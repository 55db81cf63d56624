import math
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.errors import ProtocolError
from federico.network.wire.messages import (
    FORMAT,
    HEADER_BYTES,
    ChunkRequest,
    ChunkUpload,
    FixedMessage,
    Kind,
    MessageHeader,
    ModelRequest,
    RefusedError,
    decode_refusal,
    encode_busy,
    encode_refusal,
)

REQUESTS = [ModelRequest(b"n" * 16, 7), ChunkRequest(b"d" * 32, 2**31), ChunkUpload(b"n" * 16, 5)]
HASHES = st.binary(min_size=32, max_size=32)
HEADERS = st.builds(
    MessageHeader,
    kind=st.sampled_from(Kind),
    federation=HASHES,
    schema=HASHES,
    owner=st.integers(0, 2**16 - 1),
    visitor=st.integers(0, 2**16 - 1),
    round_index=st.integers(0, 2**32 - 1),
    version=st.integers(0, 2**32 - 1),
    incarnation=st.integers(0, 2**64 - 1),
    coefficient=st.floats(0, 1e300),
    size=st.integers(0, 2**64 - 1),
    chunk_numbers=st.integers(0, 2**32 - 1),
    digest=HASHES,
    nonce=st.binary(min_size=16, max_size=16),
    sent_at=st.floats(-1e12, 1e12),
)


class TestHeader:
    @given(header=HEADERS)
    def test_a_header_comes_back_as_it_was(self, header: MessageHeader) -> None:
        data = header.encode()
        assert len(data) == HEADER_BYTES
        found = MessageHeader.decode(data)
        assert found == header
        assert found.sent_at == header.sent_at

    @pytest.mark.parametrize("moment", [math.nan, math.inf])
    def test_a_moment_that_is_none_is_refused(self, header: MessageHeader, moment: float) -> None:
        data = replace(header, sent_at=moment).encode()
        with pytest.raises(ProtocolError, match="sent at"):
            MessageHeader.decode(data)

    @pytest.mark.parametrize("size", [0, HEADER_BYTES - 1, HEADER_BYTES + 1])
    def test_another_length_is_no_header(self, header: MessageHeader, size: int) -> None:
        with pytest.raises(ProtocolError, match=f"{size} bytes"):
            MessageHeader.decode((header.encode() * 2)[:size])

    @pytest.mark.parametrize(
        ("place", "byte", "reason"),
        [(0, 0, "not a message"), (5, 0, "kind"), (6, 1, "not a message")],
    )
    def test_each_fixed_field_has_its_reason(
        self, header: MessageHeader, place: int, byte: int, reason: str
    ) -> None:
        data = bytearray(header.encode())
        data[place] = byte
        with pytest.raises(ProtocolError, match=reason):
            MessageHeader.decode(bytes(data))

    def test_another_format_is_refused_without_blame(self, header: MessageHeader) -> None:
        data = bytearray(header.encode())
        data[4] = 9
        with pytest.raises(RefusedError, match=f"format 9, and the other side speaks {FORMAT}:"):
            MessageHeader.decode(bytes(data))

    @pytest.mark.parametrize("coefficient", [-1.0, math.nan, math.inf])
    def test_a_coefficient_is_a_weight(self, header: MessageHeader, coefficient: float) -> None:
        with pytest.raises(ProtocolError, match="coefficient"):
            MessageHeader.decode(replace(header, coefficient=coefficient).encode())

    def test_a_requirement_names_the_field_that_differs(self, header: MessageHeader) -> None:
        header.require(owner=1, federation=b"f" * 32)
        with pytest.raises(ProtocolError, match="federation: another"):
            header.require(federation=b"g" * 32)
        with pytest.raises(ProtocolError, match="owner: 1, not 3"):
            header.require(owner=3)

    def test_a_field_that_does_not_fit_is_our_own_mistake(self, header: MessageHeader) -> None:
        with pytest.raises(struct.error):
            replace(header, owner=2**16).encode()


class TestRequests:
    @pytest.mark.parametrize("request_", REQUESTS, ids=lambda request_: type(request_).__name__)
    def test_a_request_comes_back_as_it_was(self, request_: FixedMessage) -> None:
        assert type(request_).decode(request_.encode()) == request_

    @pytest.mark.parametrize("request_", REQUESTS, ids=lambda request_: type(request_).__name__)
    @pytest.mark.parametrize(
        "change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""]
    )
    def test_another_length_is_no_request(
        self, request_: FixedMessage, change: Callable[[bytes], bytes]
    ) -> None:
        with pytest.raises(ProtocolError, match="a request of"):
            type(request_).decode(change(request_.encode()))


class TestRefusals:
    def test_only_a_refusal_is_one(self) -> None:
        assert str(decode_refusal(encode_refusal("too old"))) == "too old"
        assert decode_refusal(encode_busy("not yet")) is None
        assert decode_refusal(b"Timeout") is None
        assert decode_refusal(b"") is None

    def test_a_reason_from_outside_is_short_and_printable(self) -> None:
        said = str(decode_refusal(b"-" + b"\x1b[31m\xff\n" + b"x" * 10_000))
        assert len(said) <= 200
        assert said.isprintable()
