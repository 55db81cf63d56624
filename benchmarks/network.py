"""What the peer network costs: a 45 MB model pulled over mutual TLS on loopback, beside the same bytes in plain chunks.

Two processes, an owner and a visitor. The ratio is plain seconds by our seconds, of repeats that take turns; memory is
the peak of each process above what it held before its model was made, in models.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket

import numpy as np
import torch
import zenoh
from torch import nn

from federico.exchange.base import Updates
from federico.exchange.limits import Limits
from federico.exchange.roster import Roster
from federico.exchange.session import Addresses, Identity, close, open_session
from federico.exchange.zenoh import ZenohExchange
from federico.learning.bank import Bank, Visits
from federico.learning.blueprint import Blueprint
from federico.node import pki
from federico.wire.seal import Seal

SIDE = 3350
ROSTER = Roster("benchmark", bytes(32), ("owner", "visitor"))
PLAIN = ROSTER.question("owner", "visitor", "plain")
LIMITS = Limits(deadline=120)
PAIR = Visits.of([(1, 0)])


def resident(which: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return int(line.split()[1]) * 1024


def credentials(folder: Path) -> dict[str, Identity]:
    pki.init(folder / "authority", "benchmark")
    made = {}
    for name in ROSTER.members:
        wish = pki.request(folder / name, name, ["127.0.0.1"])
        certificate = pki.approve(wish, folder / "authority")
        made[name] = Identity(name, certificate, wish.with_suffix(".key"), certificate.with_name("ca.pem"))
    return made


class Peer:
    """A session and an exchange around one model; `before` is what the process held without them."""

    def __init__(self, identity: Identity, addresses: Addresses) -> None:
        self.session = open_session(identity, addresses, ROSTER)
        parts = [path.read_bytes() for path in (identity.certificate, identity.key, identity.authority)]
        blueprint = Blueprint(lambda: nn.Linear(SIDE, SIDE))
        number = ROSTER.members.index(identity.name)
        self.before = resident("VmRSS:")
        self.bank = Bank.start(blueprint, 0, {number: identity.name}, torch.device("cpu"))
        self.exchange = ZenohExchange(
            self.bank, 2, session=self.session, roster=ROSTER, me=identity.name, seal=Seal(*parts), limits=LIMITS
        )
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts here: making a model took more

    @property
    def models(self) -> float:
        """Peak memory above `before`, in models."""
        return (resident("VmHWM:") - self.before) / (self.bank.blueprint.size * 4)

    def close(self) -> None:
        self.exchange.close()
        close(self.session)


def own(identity: Identity, port: int, orders: Connection) -> None:
    """The owner's process: serves its model, and the same bytes in plain chunks, until told to stop."""
    peer = Peer(identity, Addresses(listen=[f"127.0.0.1:{port}"]))
    plain = peer.session.declare_queryable(f"{PLAIN}/*", lambda query: _reply(query, chunks))
    chunks: list[bytes] = []
    while True:
        match orders.recv():
            case "plain":
                whole = peer.bank.home.numpy().tobytes()
                chunks += [whole[at : at + LIMITS.chunk_bytes] for at in range(0, len(whole), LIMITS.chunk_bytes)]
                orders.send(len(chunks))
            case "start":
                peer.exchange.collect()
                peer.bank.home.add_(1e-3)
                peer.exchange.pull(Visits.of([]))
                orders.send(peer.models)
            case "collect":
                peer.exchange.push(Updates(np.array([0]), np.array([0]), np.ones(1), torch.ones_like(peer.bank.home)))
                orders.send(len(peer.exchange.collect()))
            case "stop":
                orders.send(peer.models)
                break
    plain.undeclare()
    peer.close()


def _reply(query: zenoh.Query, chunks: list[bytes]) -> None:
    with query:
        query.reply(query.key_expr, chunks[int(str(query.key_expr).rpartition("/")[2])])


def pull_plain(session: zenoh.Session, count: int) -> int:
    """The chunks with a window of queries under way, and nothing done with them; returns their bytes."""
    waiting, under_way, size = deque(range(count)), deque[zenoh.Handler[zenoh.Reply]](), 0
    while waiting or under_way:
        while waiting and len(under_way) < LIMITS.window:
            under_way.append(session.get(f"{PLAIN}/{waiting.popleft()}", timeout=60.0))
        sample = under_way.popleft().recv().ok
        assert sample is not None
        size += len(sample.payload.to_bytes())
    return size


def visit(identity: Identity, port: int, owner: Connection, repeats: int, answer: Connection, speed: bool) -> None:
    """The visitor's process."""
    peer = Peer(identity, Addresses(connect=[f"127.0.0.1:{port}"]))
    assert peer.exchange.membership.wait(ROSTER.members, 60)
    answer.send(measure_speed(peer, owner, repeats) if speed else measure_memory(peer, owner, repeats))
    peer.close()


def measure_speed(peer: Peer, owner: Connection, repeats: int) -> dict[str, float]:
    chunks = int(ask(owner, "plain"))
    ours, plain = [], []
    for _ in range(repeats + 1):
        ask(owner, "start")  # a new version, so that it has to be sent
        ours.append(seconds(lambda: peer.exchange.pull(PAIR)))
        plain.append(seconds(lambda: pull_plain(peer.session, chunks)))
    ask(owner, "stop")
    mine, theirs = statistics.median(ours[1:]), statistics.median(plain[1:])
    return {"pull_seconds": mine, "plain_seconds": theirs, "ratio": theirs / mine}


def measure_memory(peer: Peer, owner: Connection, repeats: int) -> dict[str, float]:
    """Rounds of a pull, an update back, and its collection; the update itself is what the method needs anyway."""
    for _ in range(repeats):
        ask(owner, "start")
        assert len(peer.exchange.pull(PAIR)) == 1
    pulled, served = peer.models, ask(owner, "start")
    for _ in range(repeats):
        peer.exchange.pull(PAIR)
        peer.exchange.push(Updates(np.array([0]), np.array([1]), np.ones(1), torch.ones_like(peer.bank.home)))
        peer.exchange.collect()
        assert ask(owner, "collect") == 2
        ask(owner, "start")
    return {
        "visitor_pulling": pulled,
        "owner_serving": served,
        "visitor_with_update": peer.models,
        "owner_with_updates": ask(owner, "stop"),
    }


def ask(other: Connection, order: str) -> float:
    other.send(order)
    answer: float = other.recv()
    return answer


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run(speed: bool, repeats: int) -> dict[str, float]:
    """One owner and one visitor, both new processes."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, socket() as probe:
        identities = credentials(Path(folder))
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        (to_owner, orders), (answers, answer) = spawn.Pipe(), spawn.Pipe()
        processes = [
            spawn.Process(target=own, args=(identities["owner"], port, orders)),
            spawn.Process(target=visit, args=(identities["visitor"], port, to_owner, repeats, answer, speed)),
        ]
        for process in processes:
            process.start()
        measured: dict[str, float] = answers.recv() if answers.poll(600) else {}
        for process in processes:
            process.join(60)
            process.kill()
        return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    measured = {"model_bytes": 4 * SIDE * (SIDE + 1), **run(True, chosen.repeats), **run(False, 3)}
    if chosen.json:
        print(json.dumps(measured))
        return
    for name, value in measured.items():
        print(f"{name:22} {value:.3g}" if name != "model_bytes" else f"{name:22} {value}")


if __name__ == "__main__":
    main()
