"""One look at an address: does a member answer there, over TLS, with papers of this federation? If not, why not."""

import socket
import ssl
from collections.abc import Collection

from federico.errors import NetworkError
from federico.network.session import Identity

SECONDS = 5.0
CONSENT = 2.0
"""Seconds without a word after the handshake that count as being let in."""
EXPIRED, NOT_YET, NAME_MISMATCH, ADDRESS_MISMATCH = 10, 9, 62, 64
"""OpenSSL's numbers for what may be wrong with a certificate."""
REFUSALS = {
    "UNKNOWN_CA": "it does not know the authority that issued this site's certificate: the two have different ones",
    "DECRYPT_ERROR": "its authority has the name of this site's, and another key: the two have different ones",
    "CERTIFICATE_EXPIRED": "it says that this site's certificate has expired; renew it, or its clock is ahead",
    "CERTIFICATE_REQUIRED": "it wants a certificate and got none",
    "BAD_CERTIFICATE": "it refuses this site's certificate",
    "CERTIFICATE_UNKNOWN": "it refuses this site's certificate",
    "ACCESS_DENIED": "it refuses this site's certificate",
}
"""The word in a TLS alert, and what it means to the one who gets it."""


class NobodyThereError(NetworkError):
    """The machine answers, and no peer on it: which is as it should be before that peer is started."""


class HungUpError(OSError):
    """The other end was silent about why."""


def probe(address: str, identity: Identity, expected: Collection[str]) -> str:
    """The name of who answers at `host:port`, after a handshake in which both sides showed their papers."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), SECONDS) as plain:
            name = _handshake(plain, host, identity)
    except socket.gaierror:
        raise NetworkError("there is no host of that name") from None
    except ConnectionRefusedError:
        raise NobodyThereError(
            "nobody listens there now; is that peer started, is the port right?"
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise NetworkError(_verification(error, host)) from None
    except HungUpError:
        raise NetworkError("hung up on this site's certificate; has it expired?") from None
    except (ssl.SSLError, ConnectionError) as error:
        raise NetworkError(_refusal(error)) from None
    except TimeoutError:
        raise NetworkError(
            f"{address}: no answer within {SECONDS:g} s; a firewall may drop it, or it is no peer"
        ) from None
    except OSError as error:
        raise NetworkError(error.strerror or str(error)) from None
    if name not in expected:
        raise NetworkError(f"{name!r} answers, which is not in the members of the federation")
    return name


def _handshake(plain: socket.socket, host: str, identity: Identity) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(identity.authority)
    context.load_cert_chain(identity.certificate, identity.key)
    with context.wrap_socket(plain, server_hostname=host) as secure:
        certificate = secure.getpeercert() or {}
        _wait_for_refusal(secure)
        subject = dict(pair for part in certificate.get("subject", ()) for pair in part)  # type: ignore[misc]
        return str(subject.get("commonName", ""))


def _wait_for_refusal(secure: ssl.SSLSocket) -> None:
    """In TLS 1.3 a server judges its client after the client's handshake is over: silence is consent."""
    secure.settimeout(CONSENT)
    try:
        if secure.recv(1):
            return
    except TimeoutError:
        return
    except (ssl.SSLEOFError, ConnectionError):
        pass
    raise HungUpError


def _verification(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == EXPIRED:
        return "its certificate has expired; the site there must renew it"
    if error.verify_code == NOT_YET:
        return (
            "its certificate is not valid yet: the clock here is behind, or the one there was ahead"
        )
    if error.verify_code in {NAME_MISMATCH, ADDRESS_MISMATCH}:
        return f"its certificate does not name {host}: dial an address it names, or issue one that names {host}"
    return "its certificate comes from another authority than this site's"


def _refusal(error: OSError) -> str:
    reason = getattr(error, "reason", None) or ""
    for word, meaning in REFUSALS.items():
        if word in reason:
            return meaning
    if (
        isinstance(error, ssl.SSLEOFError | ConnectionError)
        or "WRONG_VERSION" in reason
        or "RECORD" in reason
    ):
        return "it speaks, but not TLS (or closes the door at once): a peer without certificates, or another program"
    return f"the handshake failed ({reason or error})"
