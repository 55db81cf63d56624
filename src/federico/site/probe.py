"""Dials one address to find out whether a member answers there over TLS; if not, why not."""

import socket
import ssl
from collections.abc import Collection
from typing import Any

from federico.errors import NetworkError
from federico.network.identity import Identity

DIAL_SECONDS = 5.0
REFUSAL_SECONDS = 2.0
"""Silence for this long after the handshake means that the other side has let this one in."""
# OpenSSL's numbers for what may be wrong with a certificate.
NOT_VALID_YET = 9
EXPIRED = 10
HOST_MISMATCH = 62
ADDRESS_MISMATCH = 64
REFUSALS = {
    "UNKNOWN_CA": "it does not know the authority that issued this site's certificate: "
    "the two have different ones",
    "DECRYPT_ERROR": "its authority has the name of this site's, and another key: "
    "the two have different ones",
    "CERTIFICATE_EXPIRED": "it says that this site's certificate has expired; renew it, "
    "or its clock is ahead",
    "CERTIFICATE_REQUIRED": "it wants a certificate and got none",
    "BAD_CERTIFICATE": "it refuses this site's certificate",
    "CERTIFICATE_UNKNOWN": "it refuses this site's certificate",
    "ACCESS_DENIED": "it refuses this site's certificate",
}
"""The word in a TLS alert, and what it means for the side that receives it."""


class NobodyThereError(NetworkError):
    """The machine answers, but no peer on it: as it should be before that peer is started."""


class HungUpError(OSError):
    """The other side closed the connection after the handshake without saying why."""


def probe(address: str, identity: Identity, expected: Collection[str]) -> str:
    """The name of the member that answers at `host:port`, after both sides showed certificates."""
    name = _name_at(address, identity)
    if name not in expected:
        raise NetworkError(f"{name!r} answers, which is not in the members of the federation")
    return name


def split_address(address: str) -> tuple[str, int]:
    """The host, without the brackets of an IPv6 address, and the port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _name_at(address: str, identity: Identity) -> str:
    """The name in the certificate of whoever answers; every failure becomes a `NetworkError`."""
    host, port = split_address(address)
    try:
        with socket.create_connection((host, port), DIAL_SECONDS) as plain:
            return _handshake(plain, host, identity)
    except socket.gaierror:
        raise NetworkError("there is no host of that name") from None
    except ConnectionRefusedError:
        raise NobodyThereError(
            "nobody listens there now; is that peer started, is the port right?"
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise NetworkError(_certificate_fault(error, host)) from None
    except HungUpError:
        raise NetworkError("hung up on this site's certificate; has it expired?") from None
    except (ssl.SSLError, ConnectionError) as error:
        raise NetworkError(_refusal(error)) from None
    except TimeoutError:
        raise NetworkError(
            f"{address}: no answer within {DIAL_SECONDS:g} s; a firewall may drop it, "
            "or it is no peer"
        ) from None
    except OSError as error:
        raise NetworkError(error.strerror or str(error)) from None


def _handshake(plain: socket.socket, host: str, identity: Identity) -> str:
    """The common name in the other side's certificate, once it has accepted this side's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(identity.authority)
    context.load_cert_chain(identity.certificate, identity.key)
    with context.wrap_socket(plain, server_hostname=host) as secure:
        certificate: dict[str, Any] = secure.getpeercert() or {}
        _wait_for_refusal(secure)

    for attributes in certificate.get("subject", ()):
        for key, value in attributes:
            if key == "commonName":
                return str(value)
    return ""


def _wait_for_refusal(secure: ssl.SSLSocket) -> None:
    """In TLS 1.3 a server judges its client after the client's handshake: silence is consent."""
    secure.settimeout(REFUSAL_SECONDS)
    try:
        heard = secure.recv(1)
    except TimeoutError:
        return
    except (ssl.SSLEOFError, ConnectionError):
        heard = b""
    if not heard:
        raise HungUpError


def _certificate_fault(error: ssl.SSLCertVerificationError, host: str) -> str:
    """What is wrong with the other side's certificate."""
    if error.verify_code == EXPIRED:
        return "its certificate has expired; the site there must renew it"
    if error.verify_code == NOT_VALID_YET:
        return (
            "its certificate is not valid yet: the clock here is behind, or the one there was ahead"
        )
    if error.verify_code in {HOST_MISMATCH, ADDRESS_MISMATCH}:
        return (
            f"its certificate does not name {host}: dial an address it names, "
            f"or issue one that names {host}"
        )
    return "its certificate comes from another authority than this site's"


def _refusal(error: OSError) -> str:
    """Why the other side, or OpenSSL on this one, ended the handshake."""
    reason = getattr(error, "reason", None) or ""
    for word, meaning in REFUSALS.items():
        if word in reason:
            return meaning

    closed = isinstance(error, ssl.SSLEOFError | ConnectionError)
    if closed or "WRONG_VERSION" in reason or "RECORD" in reason:
        return (
            "it speaks, but not TLS (or closes the door at once): "
            "a peer without certificates, or another program"
        )
    return f"the handshake failed ({reason or error})"
