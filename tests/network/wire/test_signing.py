import hashlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from federico.errors import ConfigError, ProtocolError
from federico.network.wire.messages import HEADER_BYTES, MessageHeader, RefusedError
from federico.network.wire.signing import LARGEST_CERTIFICATE, Signer

CHUNKS = tuple(hashlib.sha256(bytes([k])).digest() for k in range(3))


@pytest.fixture
def header(header: MessageHeader) -> MessageHeader:
    return replace(header, digest=hashlib.sha256(b"".join(CHUNKS)).digest())


def test_a_message_is_read_by_another_member(
    alice: Signer, bob: Signer, header: MessageHeader
) -> None:
    signed = bob.verify(alice.sign(header, CHUNKS), "alice", 3)
    assert signed.header == header
    assert signed.digests == CHUNKS


def test_nobody_speaks_for_another(alice: Signer, bob: Signer, header: MessageHeader) -> None:
    with pytest.raises(ProtocolError, match="signed by 'alice', not by 'bob'"):
        bob.verify(alice.sign(header, CHUNKS), "bob", 3)


@pytest.mark.parametrize(
    "place",
    [0, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 95, HEADER_BYTES + 120, -65, -64, -1],
)
def test_a_changed_byte_anywhere_is_noticed(
    alice: Signer, bob: Signer, header: MessageHeader, place: int
) -> None:
    message = bytearray(alice.sign(header, CHUNKS))
    message[place] ^= 1
    with pytest.raises(ProtocolError):
        bob.verify(bytes(message), "alice", 3)


def test_the_same_name_from_another_authority_is_nobody(
    new_authority, bob: Signer, header: MessageHeader
) -> None:
    other = new_authority()
    impostor = Signer(*other.issue("alice"), other.pem)
    with pytest.raises(ProtocolError, match="did not issue"):
        bob.verify(impostor.sign(header, CHUNKS), "alice", 3)


def test_the_same_authoritys_name_is_not_its_key(
    new_authority, authority, bob: Signer, header: MessageHeader
) -> None:
    twin = new_authority("test authority")
    with pytest.raises(ProtocolError, match="did not issue"):
        bob.verify(Signer(*twin.issue("alice"), twin.pem).sign(header, CHUNKS), "alice", 3)


def test_an_expired_certificate_is_refused_without_blame(
    authority, bob: Signer, header: MessageHeader
) -> None:
    late = Signer(*authority.issue("alice", days=-1), authority.pem)
    with pytest.raises(RefusedError, match="valid only from"):
        bob.verify(late.sign(header, CHUNKS), "alice", 3)


def test_a_key_that_is_not_the_certificates_is_noticed(
    authority, bob: Signer, header: MessageHeader
) -> None:
    certificate, _ = authority.issue("alice")
    _, key = authority.issue("alice")
    with pytest.raises(ProtocolError, match="does not fit"):
        bob.verify(Signer(certificate, key, authority.pem).sign(header, CHUNKS), "alice", 3)


@pytest.mark.parametrize(
    "size",
    [0, 1, HEADER_BYTES, HEADER_BYTES + 96 + 64, HEADER_BYTES + 96 + 64 + LARGEST_CERTIFICATE + 1],
)
def test_sizes_are_checked_before_anything_is_read(bob: Signer, size: int) -> None:
    with pytest.raises(ProtocolError, match=f"a message of {size} bytes"):
        bob.verify(bytes(size), "alice", 3)


def test_digests_must_be_those_of_the_header(
    alice: Signer, bob: Signer, header: MessageHeader
) -> None:
    with pytest.raises(ProtocolError, match="digests"):
        bob.verify(alice.sign(header, CHUNKS[::-1]), "alice", 3)


def test_another_kind_of_key_is_an_error_of_the_user(authority) -> None:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(ConfigError, match="federico pki request"):
        Signer(authority.issue("alice")[0], key, authority.pem)
