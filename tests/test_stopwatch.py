import time

import numpy as np

from federico.stopwatch import Spent, Stopwatch


def test_a_stopwatch_adds_up_each_phase_and_starts_again() -> None:
    clock = Stopwatch()
    for phase in ("a", "b", "a"):
        with clock(phase):
            pass
    taken = clock.take()
    for seconds in (taken.seconds, taken.processor_seconds):
        assert seconds.keys() == {"a", "b"}
        assert min(seconds.values()) >= 0
    assert min(taken.seconds.values()) > 0
    assert clock.take() == Spent({}, {})


def test_a_stopwatch_counts_the_samples_of_each_client_by_phase() -> None:
    samples = np.zeros(2, dtype=np.int64)
    clock = Stopwatch(samples.copy)
    for phase, added in (("a", [3, 0]), ("b", [0, 0]), ("a", [1, 2])):
        with clock(phase):
            samples += added
    assert clock.take().samples == {"a": [4, 2]}
    assert clock.take().samples == {}


def test_a_stopwatch_tells_waiting_from_computing() -> None:
    clock = Stopwatch()
    with clock("wait"):
        time.sleep(0.5)
    spent = clock.take()
    assert spent.seconds["wait"] >= 0.5
    assert spent.processor_seconds["wait"] < 0.25
