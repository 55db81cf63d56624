"""What a hostile member costs a victim: its seconds a round and its memory, attacked and at peace.

    python -m benchmarks.flood --save benchmarks/flood.json

A victim, an honest member and a hostile one, a process each, over mutual TLS on loopback. The
victim plays rounds: some arithmetic in place of training, the models of both pulled, an update for
the honest one pushed. Stretches of peace and of attack take turns, so that a busy machine is busy
in both, and each stretch of attack is compared with the stretch of peace beside it. The hostile
process stands for another machine: it has a processor of its own, and in peace it sends the same
requests as fast, to nobody, so that what it computes to attack is not counted. What the victim
computes is counted apart, as processor seconds: those of its process, whatever else the machine
does. So are the seconds for which its rounds were ready to go on and waited for a processor, which
only others on the machine take.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import zenoh

from benchmarks.network import ROSTER, Peer, ask, credentials, resident
from federico.exchange.protocol import Updates
from federico.learning.visits import Visits
from federico.network.identity import Addresses, Identity
from federico.network.links import SHUT_OUT
from federico.network.protocol import Topic
from federico.network.session import close
from federico.network.wire.messages import ChunkRequest, ChunkUpload, ModelRequest
from federico.runs.atomic import publish_text
from federico.types import IntArray

SIDE = 1000
"""Rows and columns of the only layer: a model of 4 MB."""
VICTIM, HONEST, HOSTILE, NOBODY = ROSTER.members[:4]
Order: TypeAlias = Callable[..., float]
"""Gives a process an order, and returns its answer."""
ATTACKS = ("ask", "fetch", "upload", "nonsense", "mute")


class Member(Peer):
    """A member that plays rounds, until it is told to turn hostile."""

    hostile = False
    sent = 0
    processor_seconds = 0.0
    delayed_seconds = 0.0
    others: tuple[int, ...] = (0, 1)
    """Whose models are pulled: the same with and without an attack."""

    def forgive(self, _: int) -> float:
        """Let the hostile member come back; returns whether it did."""
        self.forgiven += SHUT_OUT
        return float(self.exchange.presence.wait([HOSTILE], 60))

    def include(self, other: int) -> float:
        """Pull the model of this member too."""
        self.others = (*self.others, other)
        return float(len(self.others))

    def play(self, count: int) -> float:
        """Play so many rounds; returns the seconds of one, all told."""
        began = time.perf_counter()
        computed = time.process_time()
        delayed = delay_of_this_thread()
        for _ in range(count):
            self._train()
            self.bank.hosted_rows.add_(1e-3)
            others = [other for other in self.others if other != self.number]
            wanted = Visits.of([(self.number, other) for other in others])
            came = self.exchange.pull(self.round_index, wanted)
            self._push_to(np.intersect1d(came.owners, [0, 1]))
            self._next_round()
        self.processor_seconds = (time.process_time() - computed) / count
        self.delayed_seconds = (delay_of_this_thread() - delayed) / count
        return (time.perf_counter() - began) / count

    def computed(self, _: int) -> float:
        """Processor seconds of a round of the last ones played, in all threads."""
        return self.processor_seconds

    def delayed(self, _: int) -> float:
        """Seconds of a round of the last ones played in which it waited for a processor."""
        return self.delayed_seconds

    def _train(self) -> None:
        """Some arithmetic that takes as long as a short visit."""
        rows = np.ones((1000, 1000), np.float32)
        for _ in range(10):
            rows = rows @ rows
            rows /= rows.max()

    def _push_to(self, owners: IntArray) -> None:
        if len(owners) == 0:
            return
        home = self.bank.hosted_rows
        deltas = self.storage.deltas(
            len(owners), home.shape[1], dtype=home.dtype, device=home.device
        )
        deltas.write(np.arange(len(owners)), home[:1].expand(len(owners), -1))
        ones = np.ones(len(owners))
        updates = Updates(owners, np.full(len(owners), self.number), ones, deltas)
        self.exchange.push(self.round_index, updates)

    def most(self, _: int) -> float:
        """Most bytes held since this was last asked."""
        held = resident("VmHWM:")
        Path("/proc/self/clear_refs").write_text("5")
        return held

    def turn(self, attack: int) -> float:
        """Attack the victim from now on, in a way that has this number; -1 stops that.

        Returns how many requests were sent in the attack that ends with it.
        """
        if attack < 0:
            self.hostile = False
            return self.sent
        self.hostile = True
        self.sent = 0
        name = ATTACKS[attack]
        if name == "mute":
            self._fall_silent()
        else:
            request = self._request(name)
            threading.Thread(target=self._flood, args=(VICTIM, *request), daemon=True).start()
        return 0.0

    def idle(self, attack: int) -> float:
        """Send what this attack sends, to nobody, until told to stop."""
        self.hostile = True
        name = ATTACKS[attack]
        if name != "mute":
            request = self._request(name)
            threading.Thread(target=self._flood, args=(NOBODY, *request), daemon=True).start()
        return 0.0

    def _request(self, attack: str) -> tuple[Topic, bytes, bytes]:
        match attack:
            case "ask":
                return Topic.REQUEST_MODEL, ModelRequest(bytes(16), 0).encode(), b""
            case "fetch":
                return Topic.REQUEST_CHUNK, ChunkRequest(bytes(32), 0).encode(), b""
            case "upload":
                return Topic.UPLOAD_CHUNK, ChunkUpload(bytes(16), 0).encode(), bytes(1 << 20)
        return Topic.OFFER_UPDATE, bytes(3000), b""

    def _flood(self, owner: str, topic: Topic, request: bytes, payload: bytes) -> None:
        key = ROSTER.request_key(owner, HOSTILE, topic)
        while self.hostile:
            self.session.get(key, attachment=request, payload=payload, timeout=1.0)
            self.sent += 1

    def _fall_silent(self) -> None:
        """Be there, take every question and answer none."""
        self.exchange.close()
        self.token = self.session.liveliness().declare_token(ROSTER.alive_key(HOSTILE))
        self.questions: list[zenoh.Query] = []
        requests = f"{ROSTER.requests_key(HOSTILE)}/*/*"
        self.silence = self.session.declare_queryable(requests, self.questions.append)


def delay_of_this_thread() -> float:
    """Seconds for which the calling thread was ready to run, and had no processor (Linux only)."""
    thread = threading.get_native_id()
    _, waited, _ = Path(f"/proc/self/task/{thread}/schedstat").read_text().split()
    return int(waited) / 1e9


def work(identity: Identity, addresses: Addresses, orders: Connection) -> None:
    """The process of one member, until it is told nothing more."""
    *shared, alone = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [alone] if identity.name == HOSTILE else shared)
    member = Member(identity, addresses, SIDE)
    while order := orders.recv():
        orders.send(member.obey(*order))
    member.exchange.close()
    close(member.session)


@contextmanager
def members() -> Iterator[list[Order]]:
    """The victim, the honest and the hostile member, by what gives them orders."""
    spawn = multiprocessing.get_context("spawn")
    pipes = []
    processes = []
    with tempfile.TemporaryDirectory() as folder, socket() as probe:
        identities = credentials(Path(folder))
        probe.bind(("127.0.0.1", 0))
        here = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        for name in (VICTIM, HONEST, HOSTILE):
            mine, theirs = spawn.Pipe()
            where = Addresses(listen=[here]) if name == VICTIM else Addresses(connect=[here])
            process = spawn.Process(target=work, args=(identities[name], where, theirs))
            process.start()
            pipes.append(mine)
            processes.append(process)
        try:
            orders: list[Order] = [partial(ask, pipe) for pipe in pipes]
            assert orders[0]("meet", 3)
            yield orders
        finally:
            for pipe in pipes:
                pipe.send(None)
            for process in processes:
                process.join(20)
                process.kill()


class Stretch(NamedTuple):
    """Some rounds of the victim."""

    seconds: float
    """By the clock, a round."""
    processor_seconds: float
    """Of the victim's process, a round."""
    delayed_seconds: float
    """In which its rounds waited for a processor, a round."""
    most_bytes: float
    """That the victim held at a time."""


class Pair(NamedTuple):
    """Some rounds in peace and as many under attack, one after the other."""

    peace: Stretch
    attack: Stretch
    requests: float
    """That the attacker sent in the attack."""


def stretch(victim: Order, rounds: int) -> Stretch:
    """Let the victim play."""
    victim("most")
    seconds = victim("play", rounds)
    return Stretch(seconds, victim("computed"), victim("delayed"), victim("most"))


def in_peace(victim: Order, attacker: Order, attack: str, rounds: int) -> Stretch:
    """Let the victim play while the attacker sends to nobody."""
    attacker("idle", ATTACKS.index(attack))
    played = stretch(victim, rounds)
    attacker("turn", -1)
    return played


def under_attack(victim: Order, attacker: Order, attack: str, rounds: int) -> tuple[Stretch, float]:
    """Let the victim play while it is attacked; also returns how many requests were sent."""
    attacker("turn", ATTACKS.index(attack))
    played = stretch(victim, rounds)
    requests = attacker("turn", -1)
    assert victim("forgive"), "the hostile member does not come back"
    return played, requests


def pairs(attack: str, rounds: int, repeats: int) -> Iterator[Pair]:
    """So many pairs of stretches; which of the two comes first takes turns."""
    with members() as (victim, honest, attacker):
        honest("start")
        attacker("start")
        victim("play", 3)
        for repeat in range(repeats):
            if repeat % 2 == 0:
                peace = in_peace(victim, attacker, attack, rounds)
                attacked, requests = under_attack(victim, attacker, attack, rounds)
            else:
                attacked, requests = under_attack(victim, attacker, attack, rounds)
                peace = in_peace(victim, attacker, attack, rounds)
            yield Pair(peace, attacked, requests)


def pairs_beside_a_mute_member(rounds: int, repeats: int) -> Iterator[Pair]:
    """The same with new processes for each pair: who has fallen silent does not speak again."""
    for _ in range(repeats):
        with members() as (victim, honest, attacker):
            honest("start")
            attacker("start")
            victim("include", ROSTER.members.index(HOSTILE))
            victim("play", 3)
            peace = in_peace(victim, attacker, "mute", rounds)
            attacker("turn", ATTACKS.index("mute"))
            yield Pair(peace, stretch(victim, rounds), 0.0)


def measure(attack: str, rounds: int, repeats: int) -> dict[str, Any]:
    """What a victim spends on this attack, as medians over pairs."""
    if attack == "mute":
        found = list(pairs_beside_a_mute_member(rounds, repeats))
    else:
        found = list(pairs(attack, rounds, repeats))

    times = [pair.attack.seconds / pair.peace.seconds for pair in found]
    undelayed_times = []
    processor_times = []
    more_a_second = []
    for pair in found:
        undelayed = pair.attack.seconds - pair.attack.delayed_seconds
        undelayed_times.append(undelayed / (pair.peace.seconds - pair.peace.delayed_seconds))
        more = pair.attack.processor_seconds - pair.peace.processor_seconds
        processor_times.append(pair.attack.processor_seconds / pair.peace.processor_seconds)
        more_a_second.append(more / pair.attack.seconds)
    most_more_bytes = max(pair.attack.most_bytes - pair.peace.most_bytes for pair in found)
    return {
        "pairs": len(found),
        "peace_seconds": statistics.median(pair.peace.seconds for pair in found),
        "times": statistics.median(times),
        "times_each": [round(each, 3) for each in times],
        "undelayed_times": statistics.median(undelayed_times),
        "undelayed_times_each": [round(each, 3) for each in undelayed_times],
        "processor_times": statistics.median(processor_times),
        "processor_times_each": [round(each, 3) for each in processor_times],
        "more_processor_seconds_a_second": statistics.median(more_a_second),
        "more_megabytes": most_more_bytes / 1e6,
        "requests": sum(pair.requests for pair in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="in a stretch")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=ATTACKS)
    parser.add_argument("--save", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    measured = {}
    for name in chosen.attacks:
        measured[name] = measure(name, chosen.rounds, chosen.pairs)
        print(f"{name:10}", measured[name], flush=True)
        if chosen.save is not None:
            publish_text(chosen.save, json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
