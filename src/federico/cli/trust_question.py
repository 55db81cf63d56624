"""Asking at a terminal whether code that an experiment names may run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from federico.own_code import asking


@contextmanager
def asking_at_terminal(file: Path) -> Iterator[None]:
    """Ask about the code that this file names, if somebody is there to be asked.

    Without a terminal it is refused, unless somebody has said yes to it before or with --trust.
    """

    def ask(code: Path, digest: str) -> bool:
        question = (
            f"{_shown(file)} runs the code in {_shown(code)} (sha256 {digest}), which may do all "
            "that you may do. Have you read it, and do you trust it?"
        )
        return typer.confirm(question, default=False, err=True)

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        yield
        return
    with asking(ask):
        yield


def _shown(path: Path) -> str:
    """The path, without signs that could make a terminal show something else."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(path))
