"""What a hostile member may cost a victim, measured between real peers."""

import pytest

from benchmarks.flood import ATTACKS, measure

MOST_TIMES = 1.2
MOST_MORE_MEGABYTES = 64


ROUNDS = 10
ROUNDS_BESIDE_A_MUTE_MEMBER = 100
"""It is waited for once, for some seconds, before it is left alone: few rounds would show only
that."""


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_makes_rounds_a_fifth_longer_at_most(attack: str) -> None:
    """Without the seconds for which others on the machine took the processor."""
    rounds = ROUNDS_BESIDE_A_MUTE_MEMBER if attack == "mute" else ROUNDS
    found = measure(attack, rounds=rounds, repeats=3)
    assert found["undelayed_times"] < MOST_TIMES
    assert found["more_megabytes"] < MOST_MORE_MEGABYTES
