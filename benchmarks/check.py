"""Whether a new measurement is worse than the stored one by more than chance."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.ratios import Measurement, Ratio, Spread, spread

LEAST = 0.05
"""A difference below this part of the stored median is never called a regression."""


@dataclass(frozen=True)
class Verdict:
    """One ratio, before and now."""

    row: str
    ratio: Ratio
    stored: Spread
    now: Spread

    @property
    def limit(self) -> float:
        """As bad as the median may be: the stored median, and once more the whole width of the
        stored values.
        """
        slack = max(self.stored.width, LEAST * abs(self.stored.middle))
        return self.stored.middle + (slack if self.ratio.better == "lower" else -slack)

    @property
    def regression(self) -> bool:
        """Whether it got worse than that."""
        worse = (
            self.now.middle > self.limit
            if self.ratio.better == "lower"
            else self.now.middle < self.limit
        )
        return worse and not (self.ratio.rounding and self.ratio.reached(self.row, self.now.middle))

    def __str__(self) -> str:
        verb = "REGRESSION" if self.regression else "ok"
        figures = f"{self.now}, stored {self.stored}, limit {self.limit:.3g}"
        return f"{verb}: {self.row}: {self.ratio.title}: {figures}"


def verdicts(
    row: str, ratios: Sequence[Ratio], stored: Sequence[Measurement], now: Sequence[Measurement]
) -> list[Verdict]:
    """Of every ratio of a row."""
    return [Verdict(row, ratio, spread(ratio, stored), spread(ratio, now)) for ratio in ratios]
