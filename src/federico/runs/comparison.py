"""Is it worth it? What a client reaches alone, with its collaborators, and with what it uses.

The status of a peer is shown with this file, and must be quick: nothing here needs numpy or torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from federico.runs.metric import Metric, metric_in

ALL_BUT_NOTHING = 0.995
"""A share from here on is all of it in words, and less than what is left to 1 is nothing."""
MOST = 0.6
"""A share from here on is most of it in words."""
EVEN = 0.5
SURE = 0.8
"""From this chance on a client is said to be sure; less, for either side, is about even."""
SET_ELSEWHERE = "the share is set on samples held out of training, not on this test data"
"""What is said beside a share that favours what is worse on the test data."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """One client's figures on its own test data: alone, with its collaborators, and as used.

    `alone`, `together` and `used` are figures by metric; one that is undefined or not finite is
    None. `together_share` is how much the collaborators count in what is used, `together_chance`
    how probable it is that they do better than the model trained alone, by samples that were held
    out of training; None where nothing can be said.
    """

    alone: dict[str, float | None]
    """Of the model that the client trained alone and shows to nobody."""
    together: dict[str, float | None]
    """Of its collaborators' models, without the one that it trained alone."""
    used: dict[str, float | None]
    """Of what the client predicts with: both, weighed by `together_share`."""
    together_share: float
    """How much the collaborators' models count, from 0 to 1; the model trained alone has the rest.
    It is judged on samples that were held out of training, never on test data."""
    together_chance: float | None = None
    """How probable it is that the collaborators' models do better than the one trained alone, from
    0 to 1, by the same samples: see `sureness_in_words`. None where nothing can be said."""

    def __post_init__(self) -> None:
        """Refuse figures that cannot be compared."""
        _refuse_incomplete(self.alone, self.together, self.used)

    def __repr__(self) -> str:
        metric = metric_in(self.used)
        used = shown_figure(metric, self.used)
        return f"Comparison({metric.name}: {describe_comparison(self)}, used {used})"


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of several clients: lists follow the order of the clients."""

    alone: dict[str, list[float | None]]
    together: dict[str, list[float | None]]
    used: dict[str, list[float | None]]
    together_share: list[float]
    together_chance: list[float | None] | None = None

    def __post_init__(self) -> None:
        """Refuse figures that cannot be compared."""
        _refuse_incomplete(self.alone, self.together, self.used)

    def of(self, place: int) -> Comparison:
        """The comparison of the client at this place."""
        return Comparison(
            alone=_of_client(self.alone, place),
            together=_of_client(self.together, place),
            used=_of_client(self.used, place),
            together_share=self.together_share[place],
            together_chance=None if self.together_chance is None else self.together_chance[place],
        )


def _refuse_incomplete(*figures: Mapping[str, object]) -> None:
    """Refuse figures, those of what is used last, without the one that a run is judged by."""
    needed = {metric_in(figures[-1]).recorded_as, "loss"}
    for each in figures:
        missing = needed - each.keys()
        if missing:
            raise ValueError(f"figures: {min(missing)} is missing")


def private_model_of(client: str) -> str:
    """What people read for the model that this client trained alone and shows to nobody."""
    return f"{client} (alone)"


def trusts_only_itself(posterior: Mapping[str, float], client: str) -> bool:
    """Whether nothing but the client's own models weighs anything worth mentioning."""
    private = posterior.get(private_model_of(client), 0.0)
    own = posterior.get(client, 0.0)
    others = sum(posterior.values()) - private - own
    return others <= (1 - ALL_BUT_NOTHING) * (others + own)


def describe_comparison(
    comparison: Comparison, *, only_itself: bool = False, explained: bool = True
) -> str:
    """In plain words, as far as is known how sure it is which of the two is better.

    Alone 76.0 %, with collaborators 83.2 %: together counts 86 %, 92 % sure that together is
    better.

    `only_itself`: the client trusts no other's model, so that nobody's is in the second figure but
    the one that it shares. `explained`: a share that favours the worse is explained.
    """
    metric = metric_in(comparison.used)
    alone = shown_figure(metric, comparison.alone)
    together = shown_figure(metric, comparison.together)
    share = comparison.together_share
    words = f"alone {alone}, with collaborators {together}: together counts {100 * share:.0f} %"
    if only_itself:
        words = (
            f"alone {alone}, with the model it shares {together} (it trusts no other's): "
            f"that counts {100 * share:.0f} %"
        )
    if comparison.together_chance is not None and not only_itself:
        words += f", {sureness_in_words(comparison.together_chance)}"
    if explained and favours_the_worse(comparison):
        words += f" ({SET_ELSEWHERE})"
    return words


def favours_the_worse(comparison: Comparison) -> bool:
    """Whether what has the larger share does worse than the other on the test data.

    The share is set by other samples, and few test samples say little; but whoever reads the
    figures side by side wonders.
    """
    metric = metric_in(comparison.used)
    alone = _figure(metric, comparison.alone)
    together = _figure(metric, comparison.together)
    gain = metric.gain(together - alone)
    if comparison.together_share > EVEN:
        return gain < 0
    return comparison.together_share < EVEN and gain > 0


def share_in_words(together_share: float) -> str:
    """Which of the two a client uses, and how far: mostly together (86 %)."""
    which = "both"
    if together_share >= ALL_BUT_NOTHING:
        which = "together"
    elif together_share >= MOST:
        which = "mostly together"
    elif together_share <= 1 - ALL_BUT_NOTHING:
        which = "alone"
    elif together_share <= 1 - MOST:
        which = "mostly alone"
    return f"{which} ({100 * together_share:.0f} %)"


def sureness_in_words(together_chance: float) -> str:
    """How sure it is which of the two is better: 92 % sure that together is better.

    It is never wholly sure: samples, however many, may be unlike those to come.
    """
    which = "together"
    sureness = together_chance
    if together_chance < EVEN:
        which = "alone"
        sureness = 1 - together_chance
    if sureness < SURE:
        return f"about even which is better ({100 * together_chance:.0f} % together)"
    if sureness >= ALL_BUT_NOTHING:
        return f"over 99 % sure that {which} is better"
    return f"{100 * sureness:.0f} % sure that {which} is better"


def sureness_in_short(together_chance: float | None) -> str:
    """The same for a column of a table; a dash where nothing can be said."""
    if together_chance is None:
        return "-"
    words = sureness_in_words(together_chance)
    if words.startswith("about even"):
        return f"about even ({100 * together_chance:.0f} %)"
    return words.replace(" sure that ", ", ").removesuffix(" is better")


def shown_figure(metric: Metric, figures: Mapping[str, float | None]) -> str:
    """One client's figure with its unit; a dash where it is undefined."""
    value = _figure(metric, figures)
    if abs(value) < float("inf"):
        return metric.text(value)
    return metric.bare(value)


def _figure(metric: Metric, figures: Mapping[str, float | None]) -> float:
    """One client's figure; the worst there is if its model has diverged, NaN if undefined."""
    (value,) = metric.of_clients({name: [value] for name, value in figures.items()})
    return value


def _of_client(figures: Mapping[str, list[float | None]], place: int) -> dict[str, float | None]:
    return {name: by_client[place] for name, by_client in figures.items()}
