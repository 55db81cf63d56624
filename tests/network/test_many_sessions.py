"""However many sessions one certificate opens at a peer, an honest member joins."""

import json
import multiprocessing
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import pytest
import zenoh

from federico.network.identity import Addresses, Identity
from federico.network.links import MOST_LINKS, LinkGuard, new_id
from federico.network.roster import Roster
from federico.network.session import close, configuration, open_session
from tests.support.neighborhood import (
    DIGEST,
    eventually,
    free_port,
    names,
    names_linked,
    write_identity,
)

ROSTER = Roster("test", DIGEST, names(3))
VICTIM, HONEST, HOSTILE = ROSTER.members
FILES_A_SESSION = 12
AT_A_TIME = 32
STANDSTILL = 5.0
"""Seconds without another session after which an attacker gets no further."""
HELD = 600.0
"""Seconds for which the attacker keeps them, if nobody stops it."""
JOINS_WITHIN = 30.0
"""Seconds that an honest member may take to join, on a machine that the attacker shares."""


def open_sessions(table: dict[str, Any], count: int, opened: "Synchronized[int]") -> None:
    """The attacker's process: opens so many sessions with one certificate, and keeps them."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = []

    def open_one(_: int) -> None:
        wanted = table | {"id": new_id(HOSTILE)}
        held.append(zenoh.open(zenoh.Config.from_json5(json.dumps(wanted))))
        opened.value = len(held)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(open_one, range(count)))
    time.sleep(HELD)


@contextmanager
def attacker(identity: Identity, here: str, count: int) -> Iterator["Synchronized[int]"]:
    """How many sessions there are so far."""
    context = multiprocessing.get_context("spawn")
    opened = context.Value("i", 0)
    table = configuration(identity, Addresses(connect=[here]), ROSTER)
    process = context.Process(target=open_sessions, args=(table, count, opened), daemon=True)
    process.start()
    try:
        yield opened
    finally:
        process.kill()
        process.join()


def wait_for_sessions(opened: "Synchronized[int]", count: int) -> None:
    """Wait for so many, as long as there are more and more of them."""
    eventually(lambda: opened.value > 0)
    before = 0
    while before < opened.value < count:
        before = opened.value
        time.sleep(STANDSTILL)


@pytest.mark.parametrize(
    "count", [30, pytest.param(1000, marks=pytest.mark.slow)], ids=["thirty", "a thousand"]
)
def test_sessions_of_one_certificate_keep_no_honest_member_out(
    authority, tmp_path: Path, count: int
) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 < most < count * FILES_A_SESSION:
        pytest.skip(f"an attacker may have {most} open files here, which is too few")
    identities = {name: write_identity(authority, tmp_path, name) for name in ROSTER.members}
    here = f"127.0.0.1:{free_port()}"
    victim = open_session(identities[VICTIM], Addresses(listen=[here]), ROSTER)
    honest = None
    try:
        with LinkGuard(victim, ROSTER), attacker(identities[HOSTILE], here, count) as some:
            wait_for_sessions(some, count // 2)
            began = time.monotonic()
            honest = open_session(identities[HONEST], Addresses(connect=[here]), ROSTER)
            eventually(lambda: names_linked(victim).count(HONEST) == 1)
            joined = time.monotonic() - began
            assert joined < JOINS_WITHIN
            wait_for_sessions(some, count)
            assert names_linked(victim).count(HONEST) == 1, "it stays"
            eventually(lambda: names_linked(victim).count(HOSTILE) <= MOST_LINKS)
    finally:
        for session in (honest, victim):
            if session is not None:
                close(session)
