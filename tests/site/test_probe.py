import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from federico.errors import NetworkError
from federico.network.identity import Identity
from federico.site.certificates import (
    approve_request,
    create_authority,
    create_request,
    renew_certificate,
)
from federico.site.probe import probe
from federico.site.site_file import Site, load_site

EVERYBODY = ("0", "1", "2")


@pytest.fixture
def address(north: Site, listening: Callable[[Site], Any]) -> Iterator[str]:
    """The address of a member that is there."""
    with listening(north):
        yield north.options.listen[0]


@pytest.fixture
def identity(sites: dict[str, Path]) -> Identity:
    return load_site(sites["1"]).identity


def foreign(identity: Identity, folder: Path, name: str = "1") -> Identity:
    """A certificate of the same name from another authority, but the right one to check others."""
    create_authority(folder / "other", "small-authority")
    certificate = approve_request(
        create_request(folder / "foreign", name, ["127.0.0.1"]), folder / "other"
    )
    return Identity(name, certificate, certificate.with_name(f"{name}.key"), identity.authority)


def test_a_member_is_told_by_name(address: str, identity: Identity) -> None:
    assert probe(address, identity, EVERYBODY) == "0"


def test_one_who_is_no_member_is_named(address: str, identity: Identity) -> None:
    with pytest.raises(NetworkError, match="'0' answers, which is not in the members"):
        probe(address, identity, ("1", "2"))


def test_another_authority_there(address: str, identity: Identity, tmp_path: Path) -> None:
    other = foreign(identity, tmp_path)
    shutil.copy(tmp_path / "other" / "ca.pem", tmp_path / "foreign" / "theirs.pem")
    strict = Identity("1", other.certificate, other.key, tmp_path / "foreign" / "theirs.pem")
    with pytest.raises(NetworkError, match="comes from another authority"):
        probe(address, strict, EVERYBODY)


def test_another_authority_here(address: str, identity: Identity, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="the two have different ones"):
        probe(address, foreign(identity, tmp_path), EVERYBODY)


def test_expired_here(address: str, identity: Identity, tmp_path: Path) -> None:
    renew_certificate(identity.certificate, tmp_path / "ca", days=0)
    # The other side says why, or has hung up before it could be heard.
    with pytest.raises(NetworkError, match=r"this site's certificate(; has it| has) expired"):
        probe(address, identity, EVERYBODY)


def test_expired_there(
    north: Site, identity: Identity, tmp_path: Path, listening: Callable[[Site], Any]
) -> None:
    renew_certificate(north.identity.certificate, tmp_path / "ca", days=0)
    with listening(north), pytest.raises(NetworkError, match="its certificate has expired"):
        probe(north.options.listen[0], identity, EVERYBODY)


def test_an_address_that_the_certificate_does_not_name(address: str, identity: Identity) -> None:
    with pytest.raises(NetworkError, match="does not name localhost"):
        probe(address.replace("127.0.0.1", "localhost"), identity, EVERYBODY)


def test_nobody_there(north: Site, identity: Identity) -> None:
    with pytest.raises(NetworkError, match="nobody listens there"):
        probe(north.options.listen[0], identity, EVERYBODY)


def test_no_such_host(identity: Identity) -> None:
    with pytest.raises(NetworkError, match="no host of that name"):
        probe("no-such-host.invalid:7447", identity, EVERYBODY)


def test_plain_talk(identity: Identity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            link, _ = server.accept()
            with link:
                link.recv(1)
                link.sendall(b"220 hello, who is there?\r\n")
                link.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(NetworkError, match="not TLS"):
            probe(f"127.0.0.1:{server.getsockname()[1]}", identity, EVERYBODY)
