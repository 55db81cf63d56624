"""A certificate that is renewed or ends while a peer runs."""

import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from socket import create_connection

import pytest
from cryptography import x509

from federico.errors import IdentityError
from federico.runs.records import read_records
from federico.site.certificates import read_certificate, renew_certificate
from federico.site.probe import split_address
from federico.site.runner import run_peer
from federico.site.shown_certificate import ShownCertificate
from federico.site.site_file import Site, load_site
from federico.site.status import SECONDS_A_DAY, read_status
from tests.support.neighborhood import eventually


@pytest.fixture
def ca(sites: dict[str, Path]) -> Path:
    return sites["0"].parent.parent / "ca"


def alone(site: Site, keep_serving: float) -> Site:
    """A site that waits for nobody before it trains."""
    changes = {"wait_for_members": 0.1, "keep_serving": keep_serving}
    return replace(site, options=site.options.model_copy(update=changes))


@pytest.fixture
def serving(north: Site) -> Iterator[Site]:
    """A peer that has played its rounds, and waits for the others with an open door."""
    stop = threading.Event()
    site = alone(north, keep_serving=60)
    peer = threading.Thread(target=run_peer, args=(site, stop))
    peer.start()
    eventually(lambda: phase(site) == "serving")
    yield site
    stop.set()
    peer.join(30)
    assert not peer.is_alive()


def phase(site: Site) -> str:
    status = site.state / "status.json"
    return read_status(site.state).phase if status.exists() else ""


def shown_by(site: Site, visitor: Site) -> int:
    """The serial number of the certificate that a peer shows at its door; 0 if it is closed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(visitor.identity.authority)
    context.load_cert_chain(visitor.identity.certificate, visitor.identity.key)
    address = split_address(site.addresses.listen[0])
    try:
        with (
            create_connection(address, 5) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
    except OSError:
        return 0
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def test_a_renewed_certificate_is_shown_without_a_restart(
    serving: Site, sites: dict[str, Path], ca: Path, caplog: pytest.LogCaptureFixture
) -> None:
    visitor = load_site(sites["1"])
    before = shown_by(serving, visitor)
    certificate = serving.identity.certificate
    renew_certificate(certificate, ca)
    renewed = x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number
    assert renewed != before
    caplog.set_level("INFO")
    eventually(lambda: shown_by(serving, visitor) == renewed)
    assert "joins again with the new one" in caplog.text
    ends = read_certificate(certificate).last.timestamp()
    eventually(lambda: read_status(serving.state).certificate_ends == ends)
    assert len(read_records(serving.state)) == 3, "no round is played twice"


def test_a_run_whose_certificate_ends_is_ended_with_a_checkpoint(north: Site, ca: Path) -> None:
    long = north.federation.model_copy(update={"rounds": 100_000})
    site = replace(alone(north, keep_serving=0), federation=long)
    renew_certificate(north.identity.certificate, ca, days=4 / SECONDS_A_DAY)
    with pytest.raises(IdentityError, match=r"expired on .* pki renew"):
        run_peer(site, threading.Event())
    played = len(read_records(north.state))
    assert played > 0
    saved = max((north.state / "checkpoint").iterdir()).name
    assert saved.startswith(f"round-{played:06}"), "nothing is lost"
    assert read_status(north.state).exit_code == 6


def test_a_certificate_that_is_not_valid_is_not_taken_over(
    north: Site, ca: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown = ShownCertificate(north.identity)
    valid = north.identity.certificate.read_bytes()
    for _ in range(3):
        north.identity.certificate.write_text("half of a certif")
        assert not shown.is_renewed()
    assert caplog.text.count("the new certificate is not used") == 1
    north.identity.certificate.unlink()
    assert not shown.is_renewed()
    north.identity.certificate.write_bytes(valid)
    assert not shown.is_renewed()
    assert shown.fault is None
    renew_certificate(north.identity.certificate, ca)
    assert shown.is_renewed()
