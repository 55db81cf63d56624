"""What a live peer says of itself and of others to whoever watches it: real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peers import PATIENCE, Federation, Site, small, until

from federico.site.certificates import renew_certificate
from federico.site.life import SILENCE_SECONDS
from federico.site.local_federation import OUTPUT_BYTES, LaunchedPeer
from federico.site.status import STATUS_FILE, read_status

FOR_EVER = 100_000
"""Rounds that no test waits for."""
IMPATIENT = {"deadline": 8.0, "patience": 5.0}


def federico(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "federico", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def waits(site: Site) -> dict[str, str]:
    """For whom the peer waits now, and for what."""
    status = site.status
    return {} if status is None else {wait.member: wait.wanted for wait in status.waits}


def test_a_peer_says_for_whom_it_waits_from_the_first_moment_to_the_last(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=3)) as federation:
        site, other = federation
        site.set(wait_for_members=PATIENCE, keep_serving=PATIENCE)
        other.set(wait_for_members=PATIENCE)
        site.start()
        until("it waits for the other", lambda: waits(site) == {other.name: "to join"})
        said = federico("peer", "status", site.file).stdout
        found = re.search(rf"Waits for {other.name} \(to join, for \d+ s, at most (\d+) s", said)
        assert found, said
        assert 0 < int(found[1]) <= PATIENCE

        other.set(evaluate_every=3)
        other.start()
        federation.succeeds()
        assert waits(site) == {}, "nobody is waited for by a peer that has ended"
        ended = federico("peer", "status", site.file).stdout
        assert "Waits for" not in ended
        assert re.search(r"Is it worth it\? alone [\d.]+ %, with collaborators [\d.]+ %", ended)
        assert re.search(rf"{site.name} predicts [a-z ]+\(\d+ %\)", ended)


def test_a_peer_that_hangs_is_waited_for_by_name_left_out_and_told_by_its_status(
    tmp_path: Path,
) -> None:
    """A stopped process keeps its connections open: only its silence tells that it hangs."""
    setup = small(2, rounds=FOR_EVER)
    with Federation(tmp_path, setup, limits=IMPATIENT) as federation:
        site, hanging = federation
        federation.start()
        until("rounds", lambda: min(site.round, hanging.round) > 2)
        pid = hanging.running.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            until("it is waited for", lambda: hanging.name in waits(site))
            stood = site.round
            until("the other goes on", lambda: site.round > stood + 2)

            # Nobody wants to wait a minute for the test: the last sign of life is made older.
            assert federico("peer", "status", hanging.file).returncode == 0
            make_older(hanging.state, SILENCE_SECONDS + 1)
            told = federico("peer", "status", hanging.file)
            assert told.returncode == 8
            assert re.search(r"running, but without a sign of life for \d\d s", told.stderr)
        finally:
            os.kill(pid, signal.SIGCONT)
        stood = hanging.round
        until("it goes on where it was", lambda: hanging.round > stood + 2)
        assert federico("peer", "status", hanging.file).returncode == 0


def make_older(state: Path, seconds: float) -> None:
    file = state / STATUS_FILE
    said: dict[str, Any] = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "updated": time.time() - seconds}))


def test_a_certificate_that_ends_soon_is_in_the_status_and_in_the_log(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=1)) as federation:
        site, lasting = federation
        renew_certificate(tmp_path / site.name / "keys" / f"{site.name}.pem", tmp_path / "ca", 5)
        for each in federation:
            each.set(wait_for_members=0.1, keep_serving=0.0)
        federation.start()
        federation.succeeds()

        advice = "the certificate ends in 5.0 days; renew it now with `federico pki renew`"
        assert advice.capitalize() in federico("peer", "status", site.file).stdout
        warnings = [line for line in log_of(site) if "WARNING" in line and advice in line]
        assert len(warnings) == 1, "once a day"

        status = federico("peer", "status", lasting.file).stdout
        assert re.search(r"The certificate is valid for \d{2,3} more days", status)
        assert not [line for line in log_of(lasting) if "certificate ends" in line]


def log_of(site: Site) -> list[str]:
    return (site.state / "peer.log").read_text().splitlines()


def test_a_peer_of_another_protocol_is_told_apart_from_one_that_is_away(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=FOR_EVER)) as federation:
        site, older = federation
        site.set(wait_for_members=0.5)
        site.start()
        older.start(trick="older")

        def noticed() -> bool:
            members = site.status.members if site.status is not None else {}
            return older.name in members and not members[older.name].same_protocol

        until("the handshake fails", noticed)
        assert "with another version of federico" in federico("peer", "status", site.file).stdout
        assert any("upgrade the federico of the older of the two" in line for line in log_of(site))
        stood = site.round
        until("this one goes on alone", lambda: site.round > stood + 1)
        assert set(site.records[-1].posterior[0]) == {site.name}, "no model of the other is taken"


def test_a_peer_that_cannot_end_its_round_leaves_when_its_time_is_up(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=FOR_EVER)) as federation:
        site = federation["0"]
        site.set(wait_for_members=0.1, stop_within=1.0)
        site.start(trick="stuck")
        until("it trains", lambda: site.status is not None and site.status.phase == "training")
        began = time.monotonic()
        site.running.terminate()
        site.succeeds()
        assert 1.0 <= time.monotonic() - began < 20.0
        assert read_status(site.state).error == "the round at hand was given up"
        assert federico("peer", "status", site.file).returncode == 0, "it was told to stop"


LAUNCHED = """
rounds = 100000
split = { samples = 200 }
partition = { kind = "label-groups", groups = 1 }
model = { kind = "mlp", hidden = [6] }
"""


def test_what_a_launched_peer_has_written_is_put_aside_when_it_has_grown(tmp_path: Path) -> None:
    site_file = tmp_path / "0" / "site.toml"
    site_file.parent.mkdir()
    said = site_file.parent / "output.txt"
    said.write_bytes(b"x" * (OUTPUT_BYTES + 1))
    peer = LaunchedPeer(site_file, restarts=0)
    assert peer.process.wait(PATIENCE) == 2, "there is no site file"
    assert said.stat().st_size < 1000
    assert f"{site_file}: " in peer.failure
    assert said.with_suffix(".txt.1").stat().st_size == OUTPUT_BYTES + 1


@pytest.mark.slow
def test_a_launched_peer_that_dies_too_often_stays_away_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(LAUNCHED)
    sites = tmp_path / "sites"
    command = [sys.executable, "-m", "federico", "launch", "2", str(file)]
    command += ["--directory", str(sites), "--restarts", "1"]
    launched = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def pid_of(name: str) -> int:
        path = sites / name / "state"
        return read_status(path).pid if (path / STATUS_FILE).exists() else 0

    def round_of(name: str) -> int:
        return read_status(sites / name / "state").round if pid_of(name) else 0

    try:
        until("rounds", lambda: min(round_of("0"), round_of("1")) > 1)
        first = pid_of("0")
        os.kill(first, signal.SIGKILL)
        until("it is back", lambda: pid_of("0") != first)
        os.kill(pid_of("0"), signal.SIGKILL)
        stood = round_of("1")
        until("the other goes on", lambda: round_of("1") > stood + 2)
        os.kill(pid_of("1"), signal.SIGTERM)
        _, said = launched.communicate(timeout=PATIENCE)
    finally:
        launched.kill()
    assert launched.returncode == 7
    killed = "0 was killed by signal 9; "
    assert said.count(f"{killed}it is started again, the others go on") == 1
    assert said.count(f"{killed}it stays away, the others go on") == 1
    assert said.rstrip().endswith("0 was killed by signal 9")
