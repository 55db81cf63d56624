"""A clock a day off, a full disk, or another federation file at one of several real peers.

It is noticed and named, nothing is lost, and nobody honest is blamed.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w
from peers import PATIENCE, Federation, Site, small, until

DAY = 24 * 3600.0
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
needs_faketime = pytest.mark.skipif(
    not FAKETIME, reason="needs libfaketime: `make clock` installs it"
)


class ClockedPeer:
    """A peer whose clock is what a file says: its own process, as the others are forked."""

    def __init__(self, site: Site, clock: Path) -> None:
        self.site = site
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None

    def set_clock(self, offset: str) -> None:
        self._clock.write_text(offset + "\n")

    def start(self, offset: str) -> None:
        self.set_clock(offset)
        faked = {
            "LD_PRELOAD": str(FAKETIME[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        with self.site.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "federico", "peer", str(self.site.file)],
                env={**os.environ, **faked},
                stdout=output,
                stderr=output,
            )

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def one_clocked_of_four(folder: Path) -> Iterator[tuple[ClockedPeer, list[Site]]]:
    """Three peers that train, and a fourth one that is not started yet."""
    with Federation(folder, small(4, rounds=1_000_000)) as federation:
        *others, odd = federation
        for site in federation:
            site.set(wait_for_members=2.0)
        for site in others:
            site.start()
        peer = ClockedPeer(odd, folder / "clock")
        try:
            yield peer, others
        finally:
            peer.kill()


def nobody_is_blamed(sites: list[Site]) -> bool:
    for site in sites:
        assert site.status is not None
        for member in site.status.members.values():
            if member.strikes or member.reason or member.reputation != "good":
                return False
    return True


def goes_on(site: Site) -> None:
    before = site.round
    until(f"{site.name} goes on", lambda: site.round > before + 2)


def clock_of(site: Site, member: str) -> float:
    status = site.status
    if status is None or member not in status.members:
        return 0.0
    return status.members[member].clock_ahead


@needs_faketime
def test_a_clock_a_day_ahead_is_named_by_all_until_it_is_set_right(tmp_path: Path) -> None:
    with one_clocked_of_four(tmp_path) as (peer, others):
        odd = peer.site
        peer.start("+1d")
        for site in others:
            until("it is noticed", lambda s=site: clock_of(s, odd.name) > 0.9 * DAY)  # type: ignore[misc]
            until("it is said", lambda s=site: f"the clock of {odd.name} is 24.0 h" in s.said)  # type: ignore[misc]
        until("it says so itself", lambda: "this site's clock is 24.0 h ahead" in odd.said)
        assert odd.status is not None
        assert odd.status.clock_ahead > 0.9 * DAY
        for site in (*others, odd):
            goes_on(site)
            assert all(clock_of(site, other.name) == 0 for other in others if other != site)
        assert all(odd.name in site.records[-1].posterior[0] for site in others)

        peer.set_clock("+0")
        for site in others:
            until("it is right", lambda s=site: clock_of(s, odd.name) == 0)  # type: ignore[misc]
        until("it knows", lambda: odd.status is not None and odd.status.clock_ahead == 0)
        assert nobody_is_blamed([*others, odd])
        assert peer.stop() == 0


@needs_faketime
def test_a_clock_a_day_behind_ends_a_peer_which_says_why_and_resumes(tmp_path: Path) -> None:
    """The certificate is not valid yet by such a clock."""
    with one_clocked_of_four(tmp_path) as (peer, others):
        odd = peer.site
        peer.start("-1d")
        assert peer.wait() == 6
        assert "the clock here says" in odd.said

        peer.start("+0")
        until("it plays", lambda: odd.round >= 3)
        peer.set_clock("-1d")
        assert peer.wait() == 6
        status = odd.status
        assert status is not None
        assert status.exit_code == 6
        assert "the clock here says" in status.error
        played = status.round
        for site in others:
            goes_on(site)

        peer.start("+0")
        goes_on(odd)
        assert f"resuming after round {played}" in odd.said, "nothing is lost"
        assert [record.round for record in odd.records[:played]] == list(range(1, played + 1))
        assert nobody_is_blamed([*others, odd])
        assert peer.stop() == 0


SMALL_DISK = 8 << 20


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A file system of a few megabytes at this place."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(place)]
    mount = shutil.which("mount")
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on this disk; returns the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_a_full_disk_ends_a_peer_which_says_why_and_resumes(tmp_path: Path) -> None:
    with Federation(tmp_path, small(3, rounds=1_000_000)) as federation:
        *others, poor = federation
        with small_disk(poor.state):
            for site in federation:
                site.set(wait_for_members=5.0)
            federation.start()
            until("rounds", lambda: all(site.round >= 3 for site in federation))

            ballast = fill(poor.state)
            assert poor.wait() == 4
            assert "no space left on the disk. Nothing is lost: free some space" in poor.said
            assert "Traceback" not in poor.said
            status = poor.status
            assert status is not None
            assert (status.phase, status.exit_code) == ("failed", 4)
            assert "no space left on the disk" in status.error
            for site in others:
                goes_on(site)

            ballast.unlink()
            played = len(poor.records)
            poor.start()
            until("it goes on", lambda: poor.round > played + 2)
            rounds = [record.round for record in poor.records]
            assert rounds == list(range(1, len(rounds) + 1)), "nothing is lost"
            assert nobody_is_blamed([*others, poor])
            for site in federation:
                site.running.terminate()
            federation.succeeds()


def has_same_file(site: Site, other: Site) -> bool:
    """Whether a site has seen no other file there."""
    status = site.status
    if status is None or other.name not in status.members:
        return True
    return status.members[other.name].same_file


def test_a_changed_federation_file_is_named_by_all_until_it_is_changed_back(
    tmp_path: Path,
) -> None:
    with Federation(tmp_path, small(3, rounds=1_000_000)) as federation:
        *others, odd = federation
        for site in federation:
            site.set(wait_for_members=2.0)
        federation.start()
        until("rounds", lambda: all(site.round >= 3 for site in federation))
        odd.running.terminate()
        assert odd.wait() == 0
        played = odd.round

        agreed = odd.options["federation"]
        tables = tomllib.loads((odd.file.parent / agreed).read_text())
        changed = odd.file.parent / "changed.toml"
        changed.write_text(tomli_w.dumps({**tables, "rounds": 999_999}))
        odd.set(federation=str(changed))
        odd.start()
        assert odd.wait() == 4
        assert "another version of the federation file" in odd.said

        kept = odd.state.rename(odd.file.parent / "kept")
        odd.start()
        for site in others:
            until("it is noticed", lambda s=site: not has_same_file(s, odd))  # type: ignore[misc]
            assert f"{odd.name} has another version of the federation file" in site.said
            goes_on(site)
        until("it says so itself", lambda: not has_same_file(odd, others[0]))
        odd.running.terminate()
        assert odd.wait() == 0

        shutil.rmtree(odd.state)
        kept.rename(odd.state)
        odd.set(federation=agreed)
        odd.start()
        until("it goes on", lambda: odd.round > played + 2)
        for site in others:
            until("it is back", lambda s=site: has_same_file(s, odd) and s.sees(odd.name))  # type: ignore[misc]
        rounds = [record.round for record in odd.records]
        assert rounds == list(range(1, len(rounds) + 1)), "nothing is lost"
        assert nobody_is_blamed([*others, odd])
        for site in federation:
            site.running.terminate()
        federation.succeeds()
