import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from federico.errors import IdentityError
from federico.network.identity import Identity
from federico.site.certificates import (
    CertificateInfo,
    approve_request,
    check_certificate,
    create_authority,
    create_request,
    read_certificate,
    renew_certificate,
)


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    create_authority(tmp_path / "ca", "authority")
    return tmp_path / "ca"


@pytest.fixture
def north(tmp_path: Path, ca: Path) -> Path:
    """The certificate of a site; its key and the authority's certificate lie beside it."""
    return approve_request(
        create_request(tmp_path / "keys", "north", ["127.0.0.1", "north.example.org"]), ca
    )


def check(certificate: Path, name: str = "north", now: datetime | None = None) -> CertificateInfo:
    key = certificate.with_name("north.key")
    authority = certificate.with_name("ca.pem")
    return check_certificate(Identity(name, certificate, key, authority), now)


def test_a_certificate_names_its_peer_and_where_it_is_dialled(north: Path) -> None:
    identity = check(north)
    assert identity.name == "north"
    assert identity.addresses == ("127.0.0.1", "north.example.org")
    assert identity.issuer == "authority"


def test_certificates_are_valid_for_a_short_time(north: Path, ca: Path) -> None:
    life = read_certificate(north).last - datetime.now(UTC)
    assert timedelta(days=89) < life < timedelta(days=91)
    assert read_certificate(ca / "ca.pem").last - datetime.now(UTC) < timedelta(days=5 * 366)


def test_keys_are_for_their_owners_eyes(north: Path, ca: Path) -> None:
    for key in (north.with_name("north.key"), ca / "ca.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_the_key_is_not_in_the_request(north: Path) -> None:
    assert "PRIVATE" not in north.with_name("north.csr").read_text()


@pytest.mark.parametrize(
    "again",
    [lambda d: create_authority(d / "ca", "x"), lambda d: create_request(d / "keys", "north", [])],
)
def test_no_key_is_ever_overwritten(
    tmp_path: Path, north: Path, again: Callable[[Path], object]
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.key")}
    with pytest.raises(IdentityError, match="ever overwritten"):
        again(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.key")} == before


def test_renewal_keeps_key_name_and_addresses(north: Path, ca: Path) -> None:
    before = read_certificate(north)
    renew_certificate(north, ca, days=200)
    after = check(north)
    assert (after.name, after.addresses) == (before.name, before.addresses)
    assert after.last > before.last + timedelta(days=100)


def test_an_expired_one_can_be_renewed(north: Path, ca: Path) -> None:
    renew_certificate(north, ca, days=0)
    with pytest.raises(IdentityError, match=r"expired on .* renew"):
        check(north)
    renew_certificate(north, ca)
    check(north)


def test_a_clock_that_is_behind_is_named(north: Path) -> None:
    with pytest.raises(IdentityError, match="clock is behind"):
        check(north, now=datetime.now(UTC) - timedelta(days=2))


def test_another_authority_is_named(north: Path, tmp_path: Path) -> None:
    create_authority(tmp_path / "other", "authority")
    north.with_name("ca.pem").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    with pytest.raises(IdentityError, match="another authority"):
        check(north)
    with pytest.raises(IdentityError, match="another authority"):
        renew_certificate(north, tmp_path / "other")


def test_another_name_is_named(north: Path) -> None:
    with pytest.raises(IdentityError, match="issued to 'north', the site file says name = 'south'"):
        check(north, "south")


def test_another_key_is_named(north: Path, tmp_path: Path) -> None:
    create_request(tmp_path / "more", "north", [])
    north.with_name("north.key").write_bytes((tmp_path / "more" / "north.key").read_bytes())
    with pytest.raises(IdentityError, match="not the key of this certificate"):
        check(north)


def test_a_key_that_others_can_read_is_refused(north: Path) -> None:
    north.with_name("north.key").chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        check(north)


@pytest.mark.parametrize("name", ["", "../north", "a b", "a/b", "n*", "x" * 65])
def test_names_that_could_be_something_else_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IdentityError, match="a name has"):
        create_request(tmp_path, name, [])


def test_an_address_with_a_port_is_refused_before_a_key_is_made(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="without a port"):
        create_request(tmp_path, "north", ["north.example.org:7447"])
    assert not list(tmp_path.iterdir())


def test_a_changed_request_is_refused(north: Path, ca: Path) -> None:
    request = north.with_name("north.csr")
    lines = request.read_text().splitlines()
    lines[-3] = lines[-3][::-1]
    request.write_text("\n".join(lines))
    with pytest.raises(IdentityError, match=r"not a signing request|changed on the way"):
        approve_request(request, ca)


@pytest.mark.parametrize(
    ("file", "reason"), [("nothing.pem", "No such file"), ("junk.pem", "not a certificate")]
)
def test_files_that_are_no_certificate_are_named(tmp_path: Path, file: str, reason: str) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(IdentityError, match=rf"{file}: .*{reason}"):
        read_certificate(tmp_path / file)


def test_the_authoritys_own_certificate_is_never_replaced_by_a_members(
    tmp_path: Path, ca: Path
) -> None:
    before = (ca / "ca.pem").read_bytes()
    for replace in (
        lambda: renew_certificate(ca / "ca.pem", ca),
        lambda: approve_request(create_request(tmp_path, "ca", []), ca),
    ):
        with pytest.raises(IdentityError, match="an authority's own certificate"):
            replace()
    assert (ca / "ca.pem").read_bytes() == before
