"""Whose clock is set wrong, by what all clocks say of each other."""

from collections.abc import Mapping
from dataclasses import dataclass

TOLERATED = 120.0
"""Seconds by which clocks may differ without a word: an answer takes a while on a slow line."""
SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True)
class Clocks:
    """The clocks that differ from those of most members."""

    own: float
    """Seconds by which this site's clock is ahead of most others; 0 if it is not wrong."""
    others: dict[str, float]
    """Seconds by which the clocks of other members are ahead, where they are wrong."""


def compare_clocks(ahead: Mapping[str, float]) -> Clocks:
    """The members whose clocks differ from most others.

    `ahead` has the seconds by which each other clock is ahead of this site's.

    A site believes its own clock, unless more than half of several others say otherwise.
    """
    by_size = sorted(ahead.values(), key=abs)
    usual = 0.0
    if len(by_size) > 1:
        # Where half of them agree with this site, it is one of those.
        usual = by_size[(len(by_size) - 1) // 2]
    if abs(usual) <= TOLERATED:
        usual = 0.0

    wrong = {}
    for name, seconds in ahead.items():
        if abs(seconds - usual) > TOLERATED:
            wrong[name] = seconds - usual
    return Clocks(own=-usual, others=wrong)


def describe_clock(ahead: float) -> str:
    """Such as "24.0 h ahead"."""
    direction = "behind"
    if ahead > 0:
        direction = "ahead"
    seconds = abs(ahead)
    if seconds < SECONDS_AN_HOUR:
        minutes = seconds / 60
        return f"{minutes:.0f} min {direction}"
    hours = seconds / SECONDS_AN_HOUR
    return f"{hours:.1f} h {direction}"
