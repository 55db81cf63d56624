"""Signed messages: a header, the digests of the chunks, the sender's certificate, and a signature.

TLS proves who is at the other end of a link; behind a relay that is the relay. The signature
(ECDSA, P-256) proves who wrote the message.
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
from federico.network.wire.messages import (
    DIGEST_BYTES,
    HEADER_BYTES,
    MessageHeader,
    RefusedError,
    SignedMessage,
)

ALGORITHM = ec.ECDSA(hashes.SHA256())
NUMBER_BYTES = 32
"""Bytes of each of the two numbers of a P-256 signature."""
SIGNATURE_BYTES = 2 * NUMBER_BYTES
LARGEST_CERTIFICATE = 4096
WRONG_KEY = "key: it must be an elliptic-curve key (P-256); make it with `federico pki request`"


@dataclass(frozen=True)
class SenderCertificate:
    """What a certificate of the federation's authority says about a sender."""

    name: str
    key: ec.EllipticCurvePublicKey
    first: datetime
    last: datetime


class Signer:
    """Signs with one site's key, and checks others against the federation's authority."""

    def __init__(self, certificate: bytes, key: bytes, authority: bytes) -> None:
        """All three are PEM."""
        private = load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ConfigError(WRONG_KEY)
        if not isinstance(private.curve, ec.SECP256R1):
            raise ConfigError(WRONG_KEY)
        self._key = private
        self._certificate = x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
        self._authority = x509.load_pem_x509_certificate(authority)
        # A sender shows the same certificate with every message: it is checked once.
        self._trusted = lru_cache(maxsize=256)(self._check_certificate)

    def sign(self, header: MessageHeader, digests: Sequence[bytes]) -> bytes:
        """The signed message that announces chunks with these digests."""
        parts = [header.encode(), *digests, self._certificate]
        body = b"".join(parts)

        # Its two numbers in a fixed number of bytes each: the usual encoding varies in length.
        signature = self._key.sign(body, ALGORITHM)
        r, s = decode_dss_signature(signature)
        first = r.to_bytes(NUMBER_BYTES, "big")
        second = s.to_bytes(NUMBER_BYTES, "big")
        return body + first + second

    def verify(self, message: bytes, sender: str, chunks: int) -> SignedMessage:
        """Read a message that must be `sender`'s, and announce this many chunks."""
        # Sizes come first: nothing is cut out or parsed before they are right.
        certificate_start = HEADER_BYTES + chunks * DIGEST_BYTES
        certificate_bytes = len(message) - certificate_start - SIGNATURE_BYTES
        if not 0 < certificate_bytes <= LARGEST_CERTIFICATE:
            raise ProtocolError(f"a message of {len(message)} bytes for {chunks} chunks")

        body = message[:-SIGNATURE_BYTES]
        signature = message[-SIGNATURE_BYTES:]
        header = MessageHeader.decode(body[:HEADER_BYTES])
        joined = body[HEADER_BYTES:certificate_start]
        certificate = body[certificate_start:]

        if hashlib.sha256(joined).digest() != header.digest:
            raise ProtocolError("digests of the chunks that are not those of the header")
        self._check_signature(sender, certificate, body, signature)

        starts = range(0, len(joined), DIGEST_BYTES)
        digests = tuple(joined[start : start + DIGEST_BYTES] for start in starts)
        return SignedMessage(header, digests)

    def _check_signature(
        self, sender: str, certificate: bytes, body: bytes, signature: bytes
    ) -> None:
        shown = self._trusted(certificate)
        if shown.name != sender:
            raise ProtocolError(f"signed by {shown.name!r}, not by {sender!r}")
        if not shown.first <= datetime.now(UTC) <= shown.last:
            # No strike: the sender's certificate ran out, or one of the two clocks is wrong.
            raise RefusedError(
                "signed with a certificate that is valid only "
                f"from {shown.first:%F %T} to {shown.last:%F %T} UTC; renew it, or set the clocks"
            )

        r = int.from_bytes(signature[:NUMBER_BYTES], "big")
        s = int.from_bytes(signature[NUMBER_BYTES:], "big")
        try:
            shown.key.verify(encode_dss_signature(r, s), body, ALGORITHM)
        except InvalidSignature:
            raise ProtocolError(f"signature does not fit the key of {sender!r}") from None

    def _check_certificate(self, der: bytes) -> SenderCertificate:
        """What the certificate says, if the federation's authority issued it."""
        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self._authority)
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            key = certificate.public_key()
            first = certificate.not_valid_before_utc
            last = certificate.not_valid_after_utc
        except Exception as error:  # bytes from outside may make a parser raise anything
            raise ProtocolError(
                f"a certificate that the federation did not issue ({type(error).__name__})"
            ) from None
        if len(names) != 1 or not isinstance(key, ec.EllipticCurvePublicKey):
            raise ProtocolError("a certificate without one name or without an elliptic-curve key")
        return SenderCertificate(str(names[0].value), key, first, last)
