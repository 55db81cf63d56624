import pytest

from federico.errors import ProtocolError
from federico.network.wire.messages import (
    ChunkRequest,
    ChunkUpload,
    FixedMessage,
    ModelRequest,
    later,
    no,
    refusal,
)

QUESTIONS = [ModelRequest(b"n" * 16, 7), ChunkRequest(b"d" * 32, 2**31), ChunkUpload(b"n" * 16, 5)]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
def test_a_question_comes_back_as_it_was(question: FixedMessage) -> None:
    assert type(question).decode(question.encode()) == question


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""]
)
def test_another_length_is_no_question(question: FixedMessage, change) -> None:
    with pytest.raises(ProtocolError, match="a question of"):
        type(question).decode(change(question.encode()))


def test_only_a_no_is_a_refusal() -> None:
    assert str(refusal(no("too old"))) == "too old"
    assert refusal(later("not yet")) is None
    assert refusal(b"Timeout") is None
    assert refusal(b"") is None


def test_a_reason_from_outside_is_short_and_printable() -> None:
    said = str(refusal(b"-" + b"\x1b[31m\xff\n" + b"x" * 10_000))
    assert len(said) <= 200
    assert said.isprintable()
