"""What a hostile member costs a victim: its seconds a round and its memory, flooded and quiet.

A victim, an honest member and a hostile one, a process each, over mutual TLS on loopback. The
victim plays rounds: some arithmetic in place of training, the models of both pulled, an update for
the honest one pushed. Quiet and hostile times take turns, so that a busy machine is busy in both.
The hostile process has a processor of its own, as it stands for another machine: what it computes
to attack is nothing that the victim has to do.
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

import numpy as np
import zenoh

from benchmarks.network import ROSTER, Peer, ask, credentials, resident
from federico.exchange.protocol import Updates
from federico.learning.visits import Visits
from federico.network.links import SHUT_OUT
from federico.network.protocol import Topic
from federico.network.session import Addresses, Identity, close
from federico.network.wire.messages import ChunkRequest, ChunkUpload, ModelRequest
from federico.types import IntArray

SIDE = 1000
"""Rows and columns of the only layer: a model of 4 MB."""
VICTIM, HONEST, HOSTILE = ROSTER.members[:3]
ATTACKS = ("ask", "fetch", "upload", "nonsense", "mute")


class Member(Peer):
    """A member that plays rounds, until it is told to turn hostile."""

    hostile = False
    sent = 0
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
        for _ in range(count):
            self._train()
            self.bank.hosted_rows.add_(1e-3)
            others = [other for other in self.others if other != self.number]
            wanted = Visits.of([(self.number, other) for other in others])
            came = self.exchange.pull(self.round_index, wanted)
            self._push_to(np.intersect1d(came.owners, [0, 1]))
            self._next_round()
        return (time.perf_counter() - began) / count

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
        moves = self.storage.deltas(
            len(owners), home.shape[1], dtype=home.dtype, device=home.device
        )
        moves.write(np.arange(len(owners)), home[:1].expand(len(owners), -1))
        ones = np.ones(len(owners))
        updates = Updates(owners, np.full(len(owners), self.number), ones, moves)
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
            threading.Thread(target=self._flood, args=request, daemon=True).start()
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

    def _flood(self, topic: Topic, request: bytes, payload: bytes) -> None:
        key = ROSTER.request_key(VICTIM, HOSTILE, topic)
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
def members() -> Iterator[list[Callable[..., float]]]:
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
            orders: list[Callable[..., float]] = [partial(ask, pipe) for pipe in pipes]
            assert orders[0]("meet", 3)
            yield orders
        finally:
            for pipe in pipes:
                pipe.send(None)
            for process in processes:
                process.join(20)
                process.kill()


def measure(attack: int, rounds: int, repeats: int) -> dict[str, object]:
    """Seconds a round and the most bytes of a victim, quiet and under this attack."""
    quiet = []
    hostile = []
    requests = 0.0
    with members() as (victim, honest, attacker):
        honest("start")
        attacker("start")
        if ATTACKS[attack] == "mute":
            victim("include", ROSTER.members.index(HOSTILE))
        victim("play", 3)
        victim("most")
        for _ in range(repeats):
            quiet.append(victim("play", rounds))
            quiet_bytes = victim("most")
            attacker("turn", attack)
            hostile.append(victim("play", rounds))
            hostile_bytes = victim("most")
            if ATTACKS[attack] == "mute":
                break  # nobody speaks again who has fallen silent
            requests += attacker("turn", -1)
            assert victim("forgive"), "the hostile member does not come back"
    before = statistics.median(quiet)
    after = statistics.median(hostile)
    return {
        "quiet_seconds": before,
        "hostile_seconds": after,
        "times": after / before,
        "times_each": [one / other for one, other in zip(hostile, quiet, strict=True)],
        "more_megabytes": (hostile_bytes - quiet_bytes) / 1e6,
        "requests_a_second": requests / (rounds * sum(hostile)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=ATTACKS)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    measured = {}
    for name in chosen.attacks:
        measured[name] = measure(ATTACKS.index(name), chosen.rounds, chosen.repeats)
        if not chosen.json:
            print(f"{name:10}", measured[name], flush=True)
    if chosen.json:
        print(json.dumps(measured))


if __name__ == "__main__":
    main()
