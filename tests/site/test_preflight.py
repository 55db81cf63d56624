from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ByteSize

from federico.site import preflight
from federico.site.certificates import renew_certificate
from federico.site.preflight import check_site
from federico.site.site_file import Site, load_site


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that are there will be seen, however busy the machine."""
    monkeypatch.setattr(preflight, "SEARCH_SECONDS", 60.0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "SEARCH_SECONDS", 0.0)


def found(site: Site) -> dict[str, tuple[str, str]]:
    return {finding.subject: (finding.grade, finding.message) for finding in check_site(site)}


@pytest.mark.usefixtures("patient")
def test_a_site_that_is_ready(
    sites: dict[str, Path], north: Site, listening: Callable[[Site], Any]
) -> None:
    with listening(north), listening(load_site(sites["2"])):
        findings = found(load_site(sites["1"]))
    assert {grade for grade, _ in findings.values()} == {"ok"}
    assert findings[f"connect {north.options.listen[0]}"][1] == "0 answers"
    assert "samples to train on" in findings["data and model"][1]
    assert "models and optimizers are kept in memory" in findings["memory"][1]
    assert {"member 0", "member 2"} < findings.keys()


@pytest.mark.usefixtures("hasty")
def test_everything_wrong_is_found_in_one_go(sites: dict[str, Path], tmp_path: Path) -> None:
    site = load_site(sites["1"])
    renew_certificate(site.identity.certificate, tmp_path / "ca", days=0)
    findings = found(replace(site, options=site.options.model_copy(update={"client": "7"})))
    wrong = {what: message for what, (grade, message) in findings.items() if grade == "wrong"}
    assert "expired" in wrong["certificate"]
    assert "no such client" in wrong["data and model"]
    assert len(wrong) == 2


@pytest.mark.usefixtures("hasty")
def test_too_little_memory_is_found(north: Site) -> None:
    grade, message = found(
        replace(north, options=north.options.model_copy(update={"memory": ByteSize(1 << 20)}))
    )["memory"]
    assert grade == "wrong"
    assert "even with all models on the disk" in message


@pytest.mark.usefixtures("hasty")
def test_one_who_is_not_started_yet_is_no_fault(sites: dict[str, Path]) -> None:
    site = load_site(sites["1"])
    findings = found(site)
    assert findings["member 0"] == ("wait", "not there now")
    grade, message = findings[f"connect {site.options.connect[0]}"]
    assert grade == "wait"
    assert "nobody listens" in message


@pytest.mark.usefixtures("hasty")
def test_a_port_in_use_is_named(north: Site, listening: Callable[[Site], Any]) -> None:
    with listening(north):
        grade, message = found(north)[f"listen {north.options.listen[0]}"]
    assert grade == "wrong"
    assert "in use" in message


@pytest.mark.usefixtures("patient")
def test_a_member_with_another_file_is_named(
    sites: dict[str, Path], north: Site, listening: Callable[[Site], Any]
) -> None:
    """The other one's federation file differs in a number nobody would notice."""
    other = replace(north, federation=north.federation.model_copy(update={"seed": 7}))
    with listening(other), listening(load_site(sites["2"])):
        grade, message = found(load_site(sites["1"]))["member 0"]
    assert grade == "wrong"
    assert other.federation.roster.version in message
