"""The certificate that a running peer shows others, until it is renewed on the disk or ends."""

import logging
from datetime import UTC, datetime

from federico.errors import IdentityError
from federico.network.identity import Identity
from federico.site.certificates import check_certificate

log = logging.getLogger(__name__)


class ShownCertificate:
    """The certificate that a peer has joined with. The network reads it once, when it is joined."""

    def __init__(self, identity: Identity) -> None:
        """Refuses a certificate that is not valid, or does not fit its key or its authority."""
        self._identity = identity
        self._joined_with = _contents(identity)
        self._refused = b""
        """What lay there and was not valid, so that it is warned of only once."""
        self._info = check_certificate(identity)

    def is_renewed(self) -> bool:
        """Whether another valid certificate has taken its place on the disk."""
        found = _contents(self._identity)
        if found in (b"", self._joined_with, self._refused):
            return False
        try:
            check_certificate(self._identity)
        except IdentityError as error:
            self._refused = found
            log.warning("the new certificate is not used: %s", error)
            return False
        return True

    @property
    def fault(self) -> IdentityError | None:
        """Why it is not valid any more: it has ended, or the clock was set back before it."""
        try:
            self._info.check_valid(self._identity.certificate, datetime.now(UTC))
        except IdentityError as error:
            return error
        return None


def _contents(identity: Identity) -> bytes:
    """All three files; nothing while one of them is being replaced."""
    try:
        return (
            identity.certificate.read_bytes()
            + identity.key.read_bytes()
            + identity.authority.read_bytes()
        )
    except OSError:
        return b""
