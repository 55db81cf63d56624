"""Eight real peers for an hour, one of them hostile, one slow and one that comes and goes.

    python -m benchmarks.soak --minutes 60 --save benchmarks/soak.json

The hostile member sends models and updates that are no numbers. The slow one is stopped for three
of every six seconds. The flapping one is killed every twenty seconds, and started again. Every
twenty seconds somebody looks at all of them: the rounds that they have played, their memory, their
open files, and whom they hold something against.
"""

import argparse
import importlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from federico.runs.atomic import publish_text

PEERS = Path(__file__).parents[1] / "tests" / "system"
HARD = {"model": {"kind": "mlp", "hidden": [64]}, "split": {"test_fraction": 0.5, "max_train": 60}}
"""The digits experiment: 60 noisy images a client."""
LIMITS = {"deadline": 10.0, "patience": 5.0}
FLAP_SECONDS = 20.0
"""How long the flapping member is there before it is killed and started again."""
STOPPED_SECONDS = 3.0
"""How long the slow member stands still, and then runs."""
SETTLED = 0.25
"""The part of the time after which memory and open files should not grow any more."""


KEPT = 12
"""Of so many looks one is written to the file; the summary is made of all."""


@dataclass(frozen=True)
class Look:
    """What is seen of the members at one moment; dictionaries are by the name of a member."""

    seconds: float
    """Since the first."""
    rounds: dict[str, int]
    memory: dict[str, int]
    """Bytes that are resident, of those who are there all the time."""
    files: dict[str, int]
    """Open files, of the same."""
    blamed: dict[str, str]
    """What anybody but the hostile member holds against one of its kind: "who by whom", why."""
    hostile: dict[str, str]
    """What each one says of the hostile member: good, paused or quarantined."""


@dataclass
class Soak:
    """All that was seen."""

    looks: list[Look] = field(default_factory=list)
    exit_codes: dict[str, int] = field(default_factory=dict)
    """How the honest members ended when they were told to."""

    @property
    def blamed(self) -> dict[str, str]:
        """Whoever was blamed wrongly at any time."""
        found: dict[str, str] = {}
        for look in self.looks:
            found |= look.blamed
        return found

    @property
    def noticed_by(self) -> set[str]:
        """Whoever has paused the hostile member at some time, or put it into quarantine."""
        found: set[str] = set()
        for look in self.looks:
            found.update(name for name, state in look.hostile.items() if state != "good")
        return found

    def grown(self, what: str) -> dict[str, float]:
        """How much more of memory or files there was at the end than once all had settled.

        Both are medians, over the last third of the settled time and over its first third.
        """
        ends = self.looks[-1].seconds
        settled = [look for look in self.looks if look.seconds >= SETTLED * ends]
        third = max(1, len(settled) // 3)
        more: dict[str, float] = {}
        for name in getattr(settled[0], what):
            first = [getattr(look, what)[name] for look in settled[:third]]
            last = [getattr(look, what)[name] for look in settled[-third:]]
            more[name] = statistics.median(last) - statistics.median(first)
        return more

    def summary(self) -> dict[str, object]:
        """The figures that count."""
        last = self.looks[-1]
        return {
            "seconds": round(last.seconds),
            "starts_of_the_flapping_member": len(self.looks),
            "rounds": last.rounds,
            "wrongly_blamed": self.blamed,
            "the_hostile_member_is": last.hostile,
            "megabytes_at_the_end": _in_megabytes(last.memory),
            "megabytes_grown": _in_megabytes(self.grown("memory")),
            "files_at_the_end": last.files,
            "files_grown": self.grown("files"),
            "exit_codes": self.exit_codes,
        }


class Company:
    """The eight members, and what is done to them."""

    def __init__(self, federation: Any) -> None:
        """`federation` is that of `tests/system/peers.py`; its sites all dial the first ones."""
        *self.honest, self.slow, self.flapping, self.hostile = federation
        self._began = time.monotonic()

    def start(self) -> None:
        """Start all of them."""
        everybody = (*self.honest, self.slow, self.flapping, self.hostile)
        for site in everybody:
            site.set(wait_for_members=30.0, keep_serving=1.0)
        for site in (*self.honest, self.slow, self.flapping):
            site.start()
        self.hostile.start("nan")

    def live(self, seconds: float) -> Iterator[Look]:
        """Let them live that long; a look each time before the flapping member is killed."""
        self._began = time.monotonic()
        while time.monotonic() - self._began < seconds:
            flaps = time.monotonic() + FLAP_SECONDS
            while time.monotonic() < flaps:
                self._slow_down()
            yield self.look()
            self.flapping.running.kill()
            self.flapping.wait()
            self.flapping.start()

    def look(self) -> Look:
        """What is to be seen now."""
        constant = (*self.honest, self.slow, self.hostile)
        of_its_kind = (*self.honest, self.slow, self.flapping)
        blamed: dict[str, str] = {}
        hostile: dict[str, str] = {}
        for site in of_its_kind:
            status = site.status
            if status is None:
                continue
            for name, member in status.members.items():
                if name == self.hostile.name:
                    hostile[site.name] = member.reputation
                elif member.strikes or member.reputation != "good":
                    blamed[f"{name} by {site.name}"] = member.reason
        return Look(
            seconds=time.monotonic() - self._began,
            rounds={site.name: site.round for site in of_its_kind},
            memory={site.name: resident(site.pid) for site in constant},
            files={site.name: open_files(site.pid) for site in constant},
            blamed=blamed,
            hostile=hostile,
        )

    def end(self) -> dict[str, int]:
        """Tell the honest ones to stop; returns how they did."""
        for site in self.honest:
            site.running.terminate()
        return {site.name: site.wait() for site in self.honest}

    def _slow_down(self) -> None:
        os.kill(self.slow.pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        os.kill(self.slow.pid, signal.SIGCONT)
        time.sleep(STOPPED_SECONDS)


def soak(company: Company, seconds: float, note: Callable[[Look], object]) -> Soak:
    """Let a company that has started live that long; `note` is told of each look."""
    seen = Soak()
    for look in company.live(seconds):
        seen.looks.append(look)
        note(look)
    seen.exit_codes = company.end()
    return seen


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) << 10


def open_files(pid: int) -> int:
    """How many files, pipes and sockets a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def say(look: Look) -> None:
    """One line about what is seen."""
    rounds = " ".join(str(number) for number in look.rounds.values())
    memory = " ".join(f"{held / 1e6:.0f}" for held in look.memory.values())
    files = " ".join(str(number) for number in look.files.values())
    hostile = sorted(set(look.hostile.values()))
    print(
        f"{look.seconds:6.0f} s  rounds {rounds}  MB {memory}  files {files}  "
        f"hostile: {', '.join(hostile)}  wrongly blamed: {look.blamed or 'nobody'}",
        flush=True,
    )


def _in_megabytes(held: dict[str, Any]) -> dict[str, float]:
    return {name: round(count / 1e6, 1) for name, count in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--save", type=Path, help="write what was seen to this file")
    chosen = parser.parse_args()

    sys.path.insert(0, str(PEERS))
    peers = importlib.import_module("peers")
    setup = peers.small(8, groups=2, rounds=1_000_000, **HARD)
    with (
        tempfile.TemporaryDirectory() as folder,
        peers.Federation(Path(folder) / "federation", setup, limits=LIMITS) as federation,
    ):
        company = Company(federation)
        company.start()
        peers.until("rounds", lambda: all(site.round >= 3 for site in company.honest))
        seen = soak(company, 60 * chosen.minutes, say)

    if chosen.save is not None:
        kept = [asdict(look) for look in seen.looks[::KEPT]]
        publish_text(chosen.save, json.dumps({"summary": seen.summary(), "looks": kept}) + "\n")
    print(json.dumps(seen.summary(), indent=1))


if __name__ == "__main__":
    main()
