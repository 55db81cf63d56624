from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.exchange.membership import Membership
from federico.exchange.session import close, open_session
from federico.node import check as module
from federico.node import pki
from federico.node.check import check
from federico.node.site import Site, load_site


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOINING", 1.0)


def found(site: Site) -> dict[str, tuple[bool, str]]:
    return {finding.what: (finding.ok, finding.message) for finding in check(site)}


def test_a_site_that_is_ready(sites: dict[str, Path], north: Site, listening: Callable[[Site], Any]) -> None:
    with listening(north):
        findings = found(load_site(sites["1"]))
    assert all(ok for ok, _ in findings.values())
    assert findings[f"connect {north.options.listen[0]}"][1] == "0 answers"
    assert "samples to train on" in findings["data and model"][1]
    assert findings["member 2"][1] == "not there now"


def test_everything_wrong_is_found_in_one_go(sites: dict[str, Path], tmp_path: Path) -> None:
    site = load_site(sites["1"])
    pki.renew(site.identity.certificate, tmp_path / "ca", days=0)
    options = site.options.model_copy(update={"part": "7"})
    findings = found(Site(options, site.agreement, site.folder))
    wrong = {what: message for what, (ok, message) in findings.items() if not ok}
    assert "expired" in wrong["certificate"]
    assert "no such part" in wrong["data and model"]
    assert "nobody listens" in wrong[f"connect {options.connect[0]}"]


def test_a_port_in_use_is_named(north: Site, listening: Callable[[Site], Any]) -> None:
    with listening(north):
        ok, message = found(north)[f"listen {north.options.listen[0]}"]
    assert not ok
    assert "in use" in message


def test_a_member_with_another_file_is_named(sites: dict[str, Path], north: Site) -> None:
    """The other one's agreement differs in a number nobody would notice."""
    other = north.agreement.model_copy(update={"seed": 7})
    session = open_session(north.identity, north.addresses, other.roster)
    membership = Membership(session, other.roster, "0")
    try:
        ok, message = found(load_site(sites["1"]))["member 0"]
    finally:
        membership.close()
        close(session)
    assert not ok
    assert other.roster.version in message
