"""What SIGTERM and Ctrl-C do to commands that run until they are stopped: `peer` and `relay`."""

import signal
import threading


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and Ctrl-C set, and nothing else happens at that moment.

    What follows is up to whoever looks at the event: `site/runner.py` says what a peer does.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    return stop
