"""A relay for sites that only dial out: it sees what passes, and can neither change a message nor forge one.

Members sign what they send end to end: whoever gets a message finds out if it is not the sender's.
"""

import logging
import threading
from pathlib import Path

from federico.errors import IdentityError
from federico.network.session import Addresses, Identity, close, open_session
from federico.site import certificates as pki
from federico.site.federation_file import load_agreement

log = logging.getLogger(__name__)


def run_relay(
    federation: Path, name: str, keys: Path, listen: list[str], stop: threading.Event
) -> None:
    """Pass messages on until told to stop."""
    agreement = load_agreement(federation)
    if name not in agreement.relays:
        raise IdentityError(
            f"{federation}: {name!r} is not in its relays: {', '.join(agreement.relays) or 'none'}"
        )
    papers = Identity(name, keys / f"{name}.pem", keys / f"{name}.key", keys / "ca.pem")
    pki.check_own(papers.certificate, papers.key, papers.authority, name)
    session = open_session(papers, Addresses(listen=listen), agreement.roster, mode="router")
    log.info(
        "%s passes on what the members of %s say, at %s", name, agreement.name, ", ".join(listen)
    )
    try:
        stop.wait()
    finally:
        close(session)
