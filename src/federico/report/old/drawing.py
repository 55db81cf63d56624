"""What all figures share: colours that everybody can tell apart, clean axes, the heat-map, names that fit."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from federico.methods import METHODS
from federico.types import Array, IntArray

# Okabe and Ito's palette, told apart with every kind of colour vision. FedeRiCo is always blue, Local always grey.
METHOD_COLORS = (
    "#0072B2",
    "#7A7A7A",
    "#D55E00",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
METHOD_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
GROUP_COLORS = (
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#0072B2",
    "#000000",
)
NO_GROUP = "#9A9A9A"
INK, SOFT, FAINT = "#1F2430", "#5B6270", "#E3E6EB"
BLUES = LinearSegmentedColormap.from_list("trust", ["#F5F8FB", "#9CC7E3", "#0072B2", "#003A66"])

DPI = 150
MOST_CELLS_WITH_TEXT = 16
MOST_TICKS, MOST_ACROSS = 32, 20
CHARACTERS_ACROSS = 48
"""Of tick labels side by side in half a figure."""


def sheet(width: float, height: float, title: str) -> Figure:
    """An empty figure with its title at the left."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    figure.suptitle(
        title, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False
    )
    return figure


def clean(axes: Axes, grid: str = "") -> None:
    """No box, quiet ticks, and at most a faint grid along `x` or `y`."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#B9BEC8")
    axes.tick_params(colors=SOFT, labelcolor=INK, labelsize=9, length=3)
    axes.xaxis.label.set(color=SOFT, fontsize=9.5)
    axes.yaxis.label.set(color=SOFT, fontsize=9.5)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color=FAINT, linewidth=0.8)  # type: ignore[arg-type]


def whole_numbers(axes: Axes) -> None:
    """Rounds are counted: no tick between two of them."""
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def subtitle(axes: Axes, text: str) -> None:
    """The title of one of several pictures in a figure."""
    axes.set_title(text, loc="left", fontsize=10.5, color=SOFT, pad=12, parse_math=False)


def method_place(name: str) -> int:
    """A method's place in the palette, the same in every run."""
    return (list(METHODS).index(name) if name in METHODS else len(METHODS)) % len(METHOD_COLORS)


def group_colors(groups: Sequence[int] | None, clients: int) -> list[str]:
    """One colour per client, by its distribution."""
    if groups is None:
        return [NO_GROUP] * clients
    places = {group: place for place, group in enumerate(sorted(set(groups)))}
    if len(places) <= len(GROUP_COLORS):
        return [GROUP_COLORS[places[group]] for group in groups]
    scale = matplotlib.colormaps["turbo"].resampled(len(places))
    return [matplotlib.colors.to_hex(scale(places[group])) for group in groups]


def by_group(groups: Sequence[int] | None, clients: int, most: int) -> IntArray:
    """The clients in the order of their distributions; of more than `most`, that many evenly from all of them."""
    order = np.argsort(groups, kind="stable") if groups is not None else np.arange(clients)
    return order if clients <= most else order[np.linspace(0, clients - 1, most).astype(int)]


def short(name: str, most: int = 22) -> str:
    """A name that fits beside an axis."""
    name = " ".join(name.split())
    return name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def ticks(axes: Axes, which: str, names: Sequence[str]) -> None:
    """Names along an axis of cells: all of them, or as many as can be read."""
    step = -(-len(names) // (MOST_ACROSS if which == "x" else MOST_TICKS))
    places = range(0, len(names), step)
    labels = [short(names[place]) for place in places]
    widest = max(map(len, labels), default=0)
    tilted = which == "x" and widest > 3 and (widest + 2) * len(labels) > CHARACTERS_ACROSS
    look: dict[str, Any] = (
        {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if tilted else {}
    )
    size = 9 if len(places) <= 20 else 7
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(list(places), labels, fontsize=size, parse_math=False, **look)


def heat(axes: Axes, values: Array, top: float, texts: Sequence[Sequence[str]]) -> None:
    """Cells from light to dark, with their text where there are few enough to read it."""
    axes.imshow(values, cmap=BLUES, vmin=0, vmax=top or 1, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK, pad=9)
    axes.xaxis.label.set(color=SOFT, fontsize=9.5)
    axes.yaxis.label.set(color=SOFT, fontsize=9.5)
    if max(values.shape) > MOST_CELLS_WITH_TEXT:
        return
    for line, cells in ((axes.axhline, values.shape[0]), (axes.axvline, values.shape[1])):
        for place in range(1, cells):
            line(place - 0.5, color="white", linewidth=1)
    for (row, column), value in np.ndenumerate(values):
        color = "white" if value > 0.45 * top else INK
        axes.text(
            column, row, texts[row][column], ha="center", va="center", fontsize=8.5, color=color
        )


def mark_groups(axes: Axes, groups: Sequence[int] | None, sides: str) -> None:
    """Coloured strips along the cells (`x`: below, `y`: left), and white lines where one distribution ends."""
    if groups is None:
        return
    colors = group_colors(groups, len(groups))
    for side in sides:
        _strip(axes, side, colors)
    for place in np.flatnonzero(np.diff(groups)) + 0.5:
        for draw in [axes.axhline] + [axes.axvline] * ("x" in sides):
            draw(place, color="white", linewidth=3 if len(groups) <= MOST_TICKS else 1)


def _strip(axes: Axes, side: str, colors: Sequence[str]) -> None:
    """Just outside the cells, as wide on paper whatever the size of the axes."""
    below = side == "x"
    edge = (axes.transData, axes.transAxes) if below else (axes.transAxes, axes.transData)
    away = ScaledTranslation(
        0 if below else -5 / 72, -5 / 72 if below else 0, axes.figure.dpi_scale_trans
    )
    ends = [[(place - 0.5, 0), (place + 0.5, 0)] for place in range(len(colors))]
    lines = ends if below else [[(y, x) for x, y in pair] for pair in ends]
    place = blended_transform_factory(*edge) + away
    axes.add_collection(
        LineCollection(
            lines, colors=colors, linewidths=5, capstyle="butt", transform=place, clip_on=False
        ),
        autolim=False,
    )


def render(figure: Figure) -> bytes:
    """The figure as a PNG."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A client's name in a script the font lacks is drawn as boxes; that is no news for the terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
