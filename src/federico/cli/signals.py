"""What SIGTERM and Ctrl-C do to commands that run until they are stopped.

`peer` and `relay` end what they are doing first; `launch` ends its peers.
"""

import signal
import sys
import threading


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
