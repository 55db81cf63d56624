"""People without a certificate, against a real peer: they can neither join it nor end it."""

import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from federico.network.session import HANDSHAKE
from federico.runs.records import read_records
from federico.site.probe import split_address
from federico.site.runner import run_peer
from federico.site.site_file import Site
from federico.site.status import read_status
from tests.support.neighborhood import eventually

SPARE = 20
"""How many more files the process may open."""
IDLE = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(60)]
print("held", flush=True)
sys.stdin.read()
"""
"""A program that holds connections and says nothing, until its input ends."""


@contextmanager
def few_files_left() -> Iterator[None]:
    """As on a machine that lets a process have few open files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + SPARE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def can_open_files() -> bool:
    try:
        socket.socket().close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux to count open files")
def test_connections_that_take_all_files_delay_a_run_and_do_not_end_it(
    north: Site, caplog: pytest.LogCaptureFixture
) -> None:
    long = north.federation.model_copy(update={"rounds": 100_000})
    options = north.options.model_copy(update={"wait_for_members": 0.1, "keep_serving": 0.0})
    site = replace(north, options=options, federation=long)
    stop = threading.Event()
    peer = threading.Thread(target=run_peer, args=(site, stop))
    peer.start()

    def rounds() -> int:
        return len(read_records(site.state)) if (site.state / "records.jsonl").exists() else 0

    eventually(lambda: rounds() > 0)
    _, port = split_address(site.addresses.listen[0])
    outsider = subprocess.Popen(
        [sys.executable, "-c", IDLE, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with outsider:
        assert outsider.stdout is not None
        with few_files_left():
            assert outsider.stdout.readline() == b"held\n"
            eventually(lambda: not can_open_files())
            eventually(lambda: "waiting for open files" in caplog.text)
            assert peer.is_alive()
            time.sleep(0.5)
            assert peer.is_alive(), "out of files is no reason to end"
            outsider.communicate()  # it leaves
            eventually(can_open_files)
        played = rounds()
        eventually(lambda: rounds() > played)
    stop.set()
    peer.join(30)
    assert read_status(site.state).phase == "stopped"
    assert read_status(site.state).exit_code == 0


def test_who_shows_no_certificate_is_put_out(
    north: Site, listening: Callable[[Site], AbstractContextManager[None]]
) -> None:
    address = split_address(north.addresses.listen[0])
    with listening(north), socket.create_connection(address) as idle:
        idle.settimeout(HANDSHAKE + 5)
        assert idle.recv(1) == b""
