"""Signed messages: header, digests of the chunks, the sender's certificate, ECDSA P-256 signature over all of it.

TLS proves who is at the other end of a link; behind a relay that is the relay. The seal proves who wrote the header.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from federico.errors import ConfigError, ProtocolError
from federico.network.wire import header as head
from federico.network.wire.header import MessageHeader

DIGEST = 32
NUMBER = 32
"""Bytes of each of the two numbers of a P-256 signature."""
LARGEST_CERTIFICATE = 4096


@dataclass(frozen=True)
class SignedMessage:
    """A message whose sender is proven."""

    header: MessageHeader
    digests: tuple[bytes, ...]
    """SHA-256 of each chunk."""


class Signer:
    """Signs with one site's key; checks others against the federation's certificate authority."""

    def __init__(self, certificate: bytes, key: bytes, authority: bytes) -> None:
        """All three as PEM."""
        private = load_pem_private_key(key, None)
        if not (
            isinstance(private, ec.EllipticCurvePrivateKey)
            and isinstance(private.curve, ec.SECP256R1)
        ):
            raise ConfigError(
                "key: it must be an elliptic-curve key (P-256); make it with `federico pki request`"
            )
        self._key = private
        self._certificate = x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
        self._authority = x509.load_pem_x509_certificate(authority)
        self._trusted = lru_cache(maxsize=256)(self._read_certificate)

    def seal(self, header: MessageHeader, digests: Sequence[bytes]) -> bytes:
        """The message that announces chunks with these digests."""
        body = header.encode() + b"".join(digests) + self._certificate
        r, s = decode_dss_signature(self._key.sign(body, ec.ECDSA(hashes.SHA256())))
        return body + r.to_bytes(NUMBER, "big") + s.to_bytes(NUMBER, "big")

    def open(self, message: bytes, sender: str, chunks: int) -> SignedMessage:
        """The message, if it is `sender`'s and announces that many chunks."""
        certificate_at = head.SIZE + chunks * DIGEST
        if not 0 < len(message) - certificate_at - 2 * NUMBER <= LARGEST_CERTIFICATE:
            raise ProtocolError(f"a message of {len(message)} bytes for {chunks} chunks")
        body, signature = message[: -2 * NUMBER], message[-2 * NUMBER :]
        header, listed = MessageHeader.decode(body[: head.SIZE]), body[head.SIZE : certificate_at]
        if hashlib.sha256(listed).digest() != header.digest:
            raise ProtocolError("digests of the chunks that are not those of the header")
        self._check_signature(sender, body[certificate_at:], body, signature)
        return SignedMessage(
            header, tuple(listed[at : at + DIGEST] for at in range(0, len(listed), DIGEST))
        )

    def _check_signature(
        self, sender: str, certificate: bytes, body: bytes, signature: bytes
    ) -> None:
        name, key, first, last = self._trusted(certificate)
        if name != sender:
            raise ProtocolError(f"signed by {name!r}, not by {sender!r}")
        if not first <= datetime.now(UTC) <= last:
            raise ProtocolError(
                f"signed with a certificate that is valid from {first:%F %T} to {last:%F %T} UTC only"
            )
        r, s = (int.from_bytes(part, "big") for part in (signature[:NUMBER], signature[NUMBER:]))
        try:
            key.verify(encode_dss_signature(r, s), body, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise ProtocolError(f"signature does not fit the key of {sender!r}") from None

    def _read_certificate(
        self, der: bytes
    ) -> tuple[str, ec.EllipticCurvePublicKey, datetime, datetime]:
        """Name, key and life of a certificate that the authority issued."""
        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self._authority)
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            key = certificate.public_key()
            first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        except Exception as error:  # whatever bytes from outside make a parser do
            raise ProtocolError(
                f"a certificate that the federation did not issue ({type(error).__name__})"
            ) from None
        if len(names) != 1 or not isinstance(key, ec.EllipticCurvePublicKey):
            raise ProtocolError("a certificate without one name or without an elliptic-curve key")
        return str(names[0].value), key, first, last
