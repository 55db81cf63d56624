"""Where output goes: results to standard output, everything else to standard error."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from federico.cli.signals import leave_on_closed_pipe
from federico.printable import printable


class PipeConsole(Console):
    """A console that ends the program in the usual way where its reader has gone.

    What it prints may quote a stranger's file: nothing in it moves the cursor or changes a color.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is printed, with a mark in the place of every character that is an order."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Called by rich, which would end with the code of an unexpected error."""
        leave_on_closed_pipe()


# No emoji: a fingerprint with `:ab:` in it must be shown as it is.
out = PipeConsole(emoji=False)
err = PipeConsole(stderr=True, emoji=False)
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
"""For a line with names and paths in it: brackets are brackets, and nothing is cut in two."""

WIDE = 140
"""Characters of a line where no terminal sets a limit."""


def for_tables() -> Console:
    """Standard output, wide enough for any table if it goes to a file."""
    return out if out.is_terminal else PipeConsole(file=out.file, width=WIDE, emoji=False)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Lines of words: a terminal wraps them between words, a file keeps them whole."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def print_json(value: Any) -> None:
    """One JSON document, for scripts."""
    sys.stdout.write(json.dumps(value, indent=1, allow_nan=False) + "\n")
