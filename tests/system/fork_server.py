"""Runs an experiment in children that die on request.

It imports once and forks often, so a child costs no start-up. Reads one JSON request per line: the
experiment `file`, the `root` of its run directory, and how the child ends: `seconds` until it is
killed, the number of the disk `step` that it does not live to take, a `torn` write, or a `limit` in
bytes on every file it writes. Answers with a line: exit `code` (negative: signal), `steps`,
`seconds`.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import sklearn.datasets  # noqa: F401 (every child would import it again)
import torch

from federico.api.progress import Quiet
from federico.errors import FedericoError
from federico.experiment.config import load
from federico.experiment.runner import simulate
from federico.runs import atomic as files
from federico.runs import tensor_file
from federico.runs.records import Journal

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}


class Steps:
    """Counts every change of the disk below `root`, and dies right before the chosen one."""

    def __init__(self, root: str, fatal: int) -> None:
        self.root = root
        self.fatal = fatal
        self.count = 0

    def watch(self) -> None:
        sys.addaudithook(self.heard)
        # Neither of these raises an audit event.
        self._count_calls(files.os, "fsync")
        self._count_calls(tensor_file, "save_file")

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES and not _opens_to_write(event, arguments):
            return
        if str(arguments[0]).startswith(self.root):
            self.take()

    def take(self) -> None:
        self.count += 1
        if self.count == self.fatal:
            die()

    def _count_calls(self, module: Any, name: str) -> None:
        plain = getattr(module, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.take()
            return plain(*arguments, **named)

        setattr(module, name, counted)


def _opens_to_write(event: str, arguments: tuple[Any, ...]) -> bool:
    if event != "open":
        return False
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def tear(what: str, after: int) -> None:
    """Make the n-th write of a kind end in the middle of the file, and the process with it."""
    if what == "checkpoint":
        tear_checkpoint(after)
    elif what == "records":
        tear_line("append", after)
    else:
        tear_line("append_spent", after)


def tear_checkpoint(after: int) -> None:
    """Cut the n-th checkpoint short."""
    save_file = tensor_file.save_file
    calls = 0

    def torn(tensors: Any, path: Path, metadata: Any) -> None:
        nonlocal calls
        calls += 1
        save_file(tensors, path, metadata=metadata)
        if calls == after:
            path.write_bytes(path.read_bytes()[:-50])
            die()

    tensor_file.save_file = torn


def tear_line(verb: str, after: int) -> None:
    """Cut the n-th line that the journal writes with this verb short."""
    append = getattr(Journal, verb)
    calls = 0

    def torn(journal: Journal, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        path = journal.records if verb == "append" else journal.timings
        before = path.stat().st_size if path.exists() else 0
        append(journal, *arguments)
        if calls == after:
            os.truncate(path, before + 40)
            die()

    setattr(Journal, verb, torn)


def child(request: dict[str, Any], report: int) -> None:
    steps = Steps(request["root"], request.get("step", 0))
    steps.watch()
    if "torn" in request:
        tear(*request["torn"])
    if "limit" in request:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["limit"], request["limit"]))
    try:
        simulate(load(Path(request["file"])), Path(request["root"]), Quiet())
    except FedericoError as error:
        os.write(report, json.dumps({"steps": steps.count, "error": str(error)}).encode())
        os._exit(error.exit_code)
    os.write(report, json.dumps({"steps": steps.count}).encode())
    os._exit(0)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            child(request, writing)
        finally:
            os._exit(99)  # only after a traceback
    os.close(writing)
    if "seconds" in request:
        timer = threading.Timer(request["seconds"], os.kill, (pid, signal.SIGKILL))
        timer.start()
    _, status = os.waitpid(pid, 0)
    seconds = time.perf_counter() - began
    if "seconds" in request:
        timer.cancel()
        timer.join()
    with os.fdopen(reading) as pipe:
        told = json.loads(pipe.read() or "{}")
    return {"code": os.waitstatus_to_exitcode(status), "seconds": seconds, **told}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)  # noqa: T201
