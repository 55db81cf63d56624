"""What SIGTERM, Ctrl-C and a closed pipe do to commands.

`peer` and `relay` end what they are doing first; `launch` ends its peers. `run` and `reproduce`
have no handler for SIGTERM: the process ends at once, and the same command resumes from the last
checkpoint. Workers of `--jobs` end with it (`experiment/workers.py`, `leave_with_parent`). `ui` is
stopped by its web server, which gives open requests a second. All others end at once. On Ctrl-C,
`main.py` adds a sentence and the exit code; workers ignore Ctrl-C, and are ended by their parent.
"""

import os
import signal
import sys
import threading
from typing import NoReturn


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and Ctrl-C set, and nothing else happens at that moment.

    What follows is up to whoever looks at the event: `site/runner.py` says what a peer does.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    return stop


def leave_on_sigterm() -> None:
    """Let SIGTERM end the program as an exception does, so that it still tidies up."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def leave_on_closed_pipe() -> NoReturn:
    """End quietly, because nobody reads the output any more, as in `federico predict ... | head`.

    The exit code is the one that a shell reports for programs that SIGPIPE has ended.
    """
    # Python writes what is left in its buffers when it ends, and would complain.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(128 + signal.SIGPIPE)
