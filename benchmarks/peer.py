"""What a whole peer takes while it trains, visits, serves and saves: memory of its own, in models.

Peers on this machine, each visiting all others, play a few rounds: once with a model of about 45
MB, and once with a small one, which shows what libraries, data and network take. Looked at a
hundred times a second is RssAnon, without programs and maps of files, which the system can take out
of memory when others need the room; VmHWM is with them.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from federico.experiment.build import Setup, prepare
from federico.experiment.config import validate
from federico.site.local_federation import LaunchedPeer, create_federation

WIDTHS = {"large": 1930, "small": 8}


def setup_of(width: int, chosen: argparse.Namespace) -> Setup:
    experiment: dict[str, Any] = {
        "name": "peer",
        "methods": ["federico"],
        "rounds": chosen.rounds,
        "partition": {"kind": "label-groups", "clients": chosen.peers, "groups": 1},
        "split": {"max_train": 60},
        "model": {"kind": "mlp", "hidden": [width] * 4},
        "federico": {
            "preset": "paper",
            "neighbors": chosen.peers - 1,
            "worse_than_guess": "tracked",
        },  # all that is visited is trained
        "system": {"memory": f"{chosen.memory * chosen.peers}MiB"}
        if chosen.memory and width > WIDTHS["small"]
        else {},
    }
    return prepare(validate(experiment), 0)


def raise_failures(peers: list[LaunchedPeer]) -> None:
    """End the measurement if a peer has failed."""
    failures = [peer.failure for peer in peers if peer.failure]
    if failures:
        raise SystemExit("\n".join(failures))


def watch(peers: list[LaunchedPeer]) -> dict[str, int]:
    """The largest peak of any peer: its own memory, and with maps of files."""
    peaks = {"RssAnon": 0, "VmHWM": 0}
    while running := [peer for peer in peers if peer.process.poll() is None]:
        raise_failures(peers)
        for peer in running:
            for name, size in status(peer.process.pid).items():
                peaks[name] = max(peaks[name], size)
        time.sleep(0.01)
    raise_failures(peers)
    return peaks


def status(pid: int) -> dict[str, int]:
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        words[0][:-1]: int(words[1]) << 10 for words in lines if words[0] in ("RssAnon:", "VmHWM:")
    }


def measure(setup: Setup) -> tuple[dict[str, int], bool]:
    """The peaks, and whether models lay on the disk."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        peers = [
            LaunchedPeer(site, restarts=0)
            for site in create_federation(Path(folder), setup, limits={"deadline": 120.0}).values()
        ]
        try:
            return watch(peers), "are kept on disk" in (
                peers[0].folder / "state" / "peer.log"
            ).read_text()
        finally:
            for peer in peers:
                peer.process.kill()
                peer.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--memory", type=int, help="what a peer may take, in MiB")
    chosen = parser.parse_args()
    large = setup_of(WIDTHS["large"], chosen)
    size = large.layout.size * large.layout.dtype.itemsize
    (peaks, on_disk), (base, _) = measure(large), measure(setup_of(WIDTHS["small"], chosen))
    where = "on the disk" if on_disk else "in memory"
    print(f"a model of {size / 1e6:.1f} MB, {chosen.peers} peers, models {where}")
    for name, peak in peaks.items():
        beyond = (peak - base[name]) / size
        small = f"{base[name] / 1e6:.0f} MB with a small model"
        print(f"{name:8} {peak / 1e6:.0f} MB, of it {small}: {beyond:.1f} models")


if __name__ == "__main__":
    main()
