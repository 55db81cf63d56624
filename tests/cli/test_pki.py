import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def certified(federico: Command) -> Command:
    """A command line in a folder where a site has been certified."""
    for arguments in (
        ["init", "ca", "--name", "authority"],
        ["request", "north", "--address", "127.0.0.1", "--address", "north.example.org"],
        ["approve", "keys/north.csr", "--yes"],
    ):
        answer = federico("pki", *arguments)
        assert answer.code == 0, answer.err
    return federico


def test_a_site_gets_its_key_and_certificate(certified: Command) -> None:
    assert {path.name for path in Path("keys").iterdir()} == {
        "north.key",
        "north.csr",
        "north.pem",
        "ca.pem",
    }
    shown = json.loads(certified("pki", "show", "keys/north.pem", "--json").out)["keys/north.pem"]
    assert shown["name"] == "north"
    assert shown["addresses"] == ["127.0.0.1", "north.example.org"]


def test_people_are_told_what_goes_where(federico: Command, certified: Command) -> None:
    said = federico("pki", "request", "south", "--keys", "more").out
    assert "south.key: stays on this site" in said
    assert "more/south.csr: send it" in said
    signed = federico("pki", "approve", "more/south.csr", "--yes").out
    assert "no address (it only dials out)" in signed
    assert "Send back more/south.pem and more/ca.pem" in signed


def test_a_certificate_is_shown_whole(certified: Command) -> None:
    text = certified("pki", "show", "keys/north.pem", "ca/ca.pem").out
    assert "127.0.0.1, north.example.org" in text
    assert text.count("issued by  authority") == 2
    described = json.loads(certified("pki", "show", "keys/north.pem", "ca/ca.pem", "--json").out)
    whole = re.sub(r"\s", "", text)  # a long one is folded
    assert all(shown["fingerprint"] in whole for shown in described.values())


def test_renewal_says_until_when(certified: Command) -> None:
    before = json.loads(certified("pki", "show", "keys/north.pem", "--json").out)["keys/north.pem"][
        "last"
    ]
    assert certified("pki", "renew", "keys/north.pem", "--days", "200").code == 0
    assert (
        json.loads(certified("pki", "show", "keys/north.pem", "--json").out)["keys/north.pem"][
            "last"
        ]
        > before
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["request", "north"], "never|ever overwritten"),
        (["request", "no/name"], "a name has"),
        (["approve", "keys/north.pem"], "not a signing request"),
        (
            ["approve", "keys/north.csr", "--ca", "nowhere", "--yes"],
            "nowhere/ca.pem: cannot be read",
        ),
        (["show", "nothing.pem"], "nothing.pem: cannot be read"),
    ],
)
def test_what_goes_wrong_is_one_line(certified: Command, arguments: list[str], reason: str) -> None:
    answer = certified("pki", *arguments)
    assert answer.code == 6
    assert len(answer.err.splitlines()) == 1
    assert any(part in answer.err for part in reason.split("|"))


def test_nothing_is_signed_before_it_was_looked_at(
    federico: Command, certified: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site reads out the fingerprint it was shown, and the authority compares."""
    request = federico("pki", "request", "south", "--address", "192.0.2.1", "--keys", "more").out
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    answer = federico("pki", "approve", "more/south.csr")
    assert answer.code == 6
    assert "add --yes" in answer.err
    assert not Path("more/south.pem").exists()
    fingerprint = re.search(r"key SHA-256  ([0-9a-f]{64})", request)
    assert fingerprint is not None
    assert fingerprint[1] in answer.out
    assert "name         south" in answer.out
    assert "addresses    192.0.2.1" in answer.out
