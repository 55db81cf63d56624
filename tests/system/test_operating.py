"""What somebody who operates peers relies on: real processes, killed, watched and stopped."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

from peers import PATIENCE, Federation, Site, small, until
from prometheus_client.parser import text_string_to_metric_families

from federico.site.local_federation import free_addresses
from federico.site.status import read_status

LAUNCHED = """
rounds = 100000
split = { samples = 200 }
partition = { kind = "label-groups", groups = 1 }
model = { kind = "mlp", hidden = [6] }
"""


def federico(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "federico", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_a_killed_peer_of_a_launch_comes_back_and_the_same_command_resumes(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(LAUNCHED)
    sites = tmp_path / "sites"
    command = [
        sys.executable,
        "-m",
        "federico",
        "launch",
        "2",
        str(file),
        "--directory",
        str(sites),
    ]

    def round_of(name: str) -> int:
        path = sites / name / "state" / "status.json"
        return read_status(path.parent).round if path.exists() else 0

    launched = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until("rounds", lambda: min(round_of("0"), round_of("1")) > 2)
    victim = read_status(sites / "0" / "state")
    other = read_status(sites / "1" / "state")
    os.kill(victim.pid, signal.SIGKILL)
    until("it is back", lambda: read_status(sites / "0" / "state").pid != victim.pid)
    until("it goes on", lambda: round_of("0") > victim.round + 2)
    assert read_status(sites / "1" / "state").pid == other.pid, "the other was not touched"

    launched.send_signal(signal.SIGINT)
    _, said = launched.communicate(timeout=PATIENCE)
    assert launched.returncode == 130
    assert "0 was killed by signal 9; it is started again, the others go on" in said
    assert f"start the same command again to resume from {sites}" in said

    stopped = round_of("1")
    again = subprocess.Popen([*command, "--quiet"])
    until("it resumes", lambda: round_of("1") > stopped)
    again.terminate()
    again.wait(PATIENCE)
    assert "resuming after round" in (sites / "1" / "state" / "peer.log").read_text()

    changed = federico("launch", 2, file, "--directory", sites, "--set", "rounds=5")
    assert changed.returncode == 4
    assert "holds another federation" in changed.stderr


def test_metrics_health_and_drain_of_a_running_peer(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=100_000)) as federation:
        site, other = federation
        (address,) = free_addresses(1)
        site.set(metrics=address)
        federation.start()
        until("rounds", lambda: site.round > 2 and site.sees(other.name))

        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        values = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                values[sample.name, *sample.labels.values()] = sample.value
        assert values["federico_round",] >= 2
        assert values["federico_member_here", other.name] == 1
        assert values["federico_member_standing", other.name] == 1
        assert values["federico_member_refused_updates", other.name] == 0
        assert 0 <= values["federico_figure", "accuracy"] <= 1
        assert values["federico_bytes_total", "received", "training"] > 0
        assert values["federico_certificate_expiry_timestamp_seconds",] > time.time()
        assert values["process_resident_memory_bytes",] > 0

        healthy = federico("peer", "status", site.file, "--json")
        assert healthy.returncode == 0
        assert json.loads(healthy.stdout)["running"]

        private = [site.state, *site.state.iterdir()]
        assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in private)

        for of_site in (site.file, site.state):
            reported = federico("report", of_site)
            assert reported.returncode == 0, reported.stderr
            # The peer trains while it is asked: it may have collaborators in one round and none
            # in the next.
            if "works alone" in reported.stdout:
                assert "model that it trained alone (accuracy " in reported.stdout
            else:
                assert f"{site.name} learns with" in reported.stdout
                assert "On its test data it reaches" in reported.stdout
        page = site.state / "report.html"
        assert f"Report: {page}" in reported.stdout
        assert stat.S_IMODE(page.stat().st_mode) == 0o600

        other.running.kill()
        other.wait()
        dead = federico("peer", "status", other.file, "--json")
        assert dead.returncode == 8
        assert not json.loads(dead.stdout)["running"]
        assert "ended without a word" in dead.stderr

        drained = federico("peer", "drain", site.file)
        assert drained.returncode == 0, drained.stderr
        assert f"{site.name}: stopped after round" in drained.stdout
        site.succeeds()
        ended = federico("peer", "status", site.file, "--json")
        assert ended.returncode == 0
        assert json.loads(ended.stdout)["exit_code"] == 0


def test_a_failed_peer_leaves_its_exit_code_and_error(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=1)) as federation:
        site = federation["0"]
        (tmp_path / "0" / "keys" / "0.key").chmod(0o644)
        done = federico("peer", site.file, "--log", "json")
        assert done.returncode == 6
        answer = federico("peer", "status", site.file, "--json")
        assert answer.returncode == 8
        found = json.loads(answer.stdout)
        assert found["exit_code"] == 6
        assert "chmod 600" in found["error"]


def test_whoever_is_told_to_stop_leaves_in_time(tmp_path: Path) -> None:
    """A round that would take for ever is given up; what was saved stays."""
    code = f"""
        import threading
        from pathlib import Path
        from federico.site.life import leaving_in_time, reported_life

        stop = threading.Event()
        folder = Path({str(tmp_path)!r})
        with reported_life(folder, "heart", "north", 5), leaving_in_time(folder, stop, 0.5):
            stop.set()
            threading.Event().wait()
    """
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=30, check=False)
    assert done.returncode == 0
    assert time.monotonic() - begun < 15
    status = read_status(tmp_path)
    assert (status.phase, status.exit_code) == ("stopped", 0)
    assert status.error == "the round at hand was given up"


def test_a_log_for_programs(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=1)) as federation:
        site = federation["0"]
        site.set(wait_for_members=0.1, keep_serving=0.0)
        done = federico("peer", site.file, "--log", "json")
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        assert {line["level"] for line in lines} == {"info", "warning"}
        assert any(line["message"].startswith("round 1/1: ") for line in lines)
        in_file = (site.state / "peer.log").read_text().splitlines()
        assert [json.loads(line) for line in in_file] == lines


def test_a_site_that_runs_twice_says_so_itself(tmp_path: Path) -> None:
    """Such as one that was restored on a new machine, while the old one was not dead."""
    with Federation(tmp_path, small(2, rounds=100_000)) as federation:
        other, site = federation
        (address,) = free_addresses(1)
        double = Site(shutil.copytree(site.file.parent, tmp_path / "restored") / "site.toml")
        double.set(listen=[address])
        federation.start()
        double.start()
        try:
            for each in (site, double):
                until("it is noticed", lambda each=each: each.status and each.status.has_double)  # type: ignore[misc]
                until("it is said", lambda each=each: "another process runs" in each.said)  # type: ignore[misc]
            shown = federico("peer", "status", site.file)
            assert "Another process runs with this site's key" in shown.stdout
            assert other.status is not None
            assert not other.status.has_double
            assert other.status.members[site.name].strikes == 0, "nobody is blamed for it"
            assert not other.status.members[site.name].reason
        finally:
            double.running.kill()
            double.running.join()
        until("one is left", lambda: site.status is not None and not site.status.has_double)
