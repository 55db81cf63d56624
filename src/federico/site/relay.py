"""A relay for sites that can only dial out.

It sees the messages that it passes on, but can neither change nor forge one unnoticed: members sign
what they send, and check the signature of what they get.
"""

import logging
import threading
from pathlib import Path

from federico.errors import IdentityError
from federico.network.identity import Addresses, Identity
from federico.network.links import LinkGuard
from federico.network.session import close, open_session
from federico.site.certificates import check_certificate
from federico.site.federation_file import load_federation

log = logging.getLogger(__name__)


def run_relay(
    federation_file: Path, name: str, keys: Path, listen: list[str], stop: threading.Event
) -> None:
    """Pass messages on until told to stop."""
    federation = load_federation(federation_file)
    if name not in federation.relays:
        allowed = ", ".join(federation.relays) or "none"
        raise IdentityError(f"{federation_file}: {name!r} is not in its relays: {allowed}")

    identity = Identity(name, keys / f"{name}.pem", keys / f"{name}.key", keys / "ca.pem")
    check_certificate(identity)

    session = open_session(identity, Addresses(listen=listen), federation.roster, mode="router")
    log.info(
        "%s relays the messages of the members of %s, at %s",
        name,
        federation.name,
        ", ".join(listen),
    )
    try:
        with LinkGuard(session, federation.roster):
            stop.wait()
    finally:
        close(session)
