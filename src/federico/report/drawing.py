"""What all figures share: colours that everybody can tell apart, clean axes, names that fit."""

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from federico.runs.table import TableRow
from federico.types import Array

LineStyle: TypeAlias = str | tuple[int, tuple[float, ...]]
Item = TypeVar("Item")

# Okabe and Ito's palette, told apart with every kind of colour vision. FedeRiCo is always blue and
# Local always grey; other built-in methods keep their colours too, so that reports look alike.
METHOD_COLORS = {
    "federico": "#0072B2",
    "local": "#7A7A7A",
    "fedavg": "#D55E00",
    "fedavg_plus": "#E69F00",
    "clustered": "#009E73",
    "fedem": "#CC79A7",
    "fedfomo": "#56B4E9",
    "ditto": "#000000",
    "fedper": "#882255",
    "ifca": "#999933",
}
OTHER_COLORS = ("#332288", "#44AA99", "#AA4499", "#661100", "#4B7F00", "#B8860B", "#00429D")
"""Colours of all other methods, in the order in which a table has them."""
LINE_STYLES: tuple[LineStyle, ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (8, 2)),
)
LINES_APART = 3
"""How far apart the styles of two rows of one method are; 3 meets all eight before the first."""
GROUP_COLORS = (
    "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#0072B2", "#000000",
)  # fmt: skip
NO_GROUP = "#9A9A9A"
PAPER = "#CC79A7"
INK = "#1F2430"
SOFT = "#5B6270"
FAINT = "#E3E6EB"
AXIS = "#B9BEC8"
BLUES = LinearSegmentedColormap.from_list("trust", ["#F5F8FB", "#9CC7E3", "#0072B2", "#003A66"])

NARROW = 6.2
"""Inches of a picture that can still be read on a telephone."""
DPI = 150
MOST_CELLS_WITH_TEXT = 16
MOST_TICKS = 32
MOST_ACROSS = 20
DARK_CELL = 0.56
"""Cells above this share of the darkest are too dark for dark letters, and on a dark page above
this share of the lightest too light for light ones."""
LEAST_NAMED = 0.045
"""A group with a smaller share of the rows has no room for its name."""
CHARACTERS_PER_INCH = 8.5
"""Characters of a title that fit in an inch of a figure's width."""
CHARACTERS_ACROSS = 48
"""Characters of tick labels that fit side by side in half a figure."""


@dataclass(frozen=True)
class Look:
    """How the line or dots of one row are drawn."""

    color: str
    line: LineStyle


def looks(rows: Sequence[TableRow]) -> dict[str, Look]:
    """The look of every row by its name; rows of one method have one colour and other lines."""
    known = list(METHOD_COLORS)
    others: list[str] = []
    for row in rows:
        if row.method not in known and row.method not in others:
            others.append(row.method)

    found: dict[str, Look] = {}
    methods: list[str] = []
    for row in rows:
        if row.method in known:
            place = known.index(row.method)
            color = METHOD_COLORS[row.method]
        else:
            number = others.index(row.method)
            place = len(known) + number
            color = OTHER_COLORS[number % len(OTHER_COLORS)]
        further = LINES_APART * methods.count(row.method)
        methods.append(row.method)
        found[row.name] = Look(color, LINE_STYLES[(place + further) % len(LINE_STYLES)])
    return found


def shades(count: int) -> list[str]:
    """Colours from light to dark, for variants of one method."""
    scale = matplotlib.colormaps["viridis_r"]
    places = np.linspace(0.15, 0.9, count)
    return [to_hex(scale(place)) for place in places]


def sheet(width: float, height: float, title: str) -> Figure:
    """An empty figure with its title at the left, on several lines where it is too long for one."""
    across = int(width * CHARACTERS_PER_INCH)
    # A line does not begin with a unit.
    title = title.replace(" %", "\N{NO-BREAK SPACE}%")
    title = textwrap.fill(title, across, break_on_hyphens=False)
    title = title.replace("\N{NO-BREAK SPACE}", " ")
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    figure.suptitle(
        title,
        x=0.012,
        ha="left",
        fontsize=13,
        fontweight="bold",
        color=INK,
        parse_math=False,
    )
    return figure


def clean(axes: Axes, grid: str = "") -> None:
    """No box, quiet ticks, and at most a faint grid along `x` or `y`."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(AXIS)
    axes.tick_params(colors=SOFT, labelcolor=INK, labelsize=9, length=3)
    _quiet_labels(axes)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color=FAINT, linewidth=0.8)  # type: ignore[arg-type]


def _quiet_labels(axes: Axes) -> None:
    axes.xaxis.label.set(color=SOFT, fontsize=9.5)
    axes.yaxis.label.set(color=SOFT, fontsize=9.5)


def whole_numbers(axes: Axes) -> None:
    """Rounds are counted: no tick between two of them."""
    locator = MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True)
    axes.xaxis.set_major_locator(locator)


def subtitle(axes: Axes, text: str) -> None:
    """The title of one of several pictures in a figure."""
    axes.set_title(text, loc="left", fontsize=10.5, color=SOFT, pad=12, parse_math=False)


def legend_below(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    """A legend under all pictures of a figure."""
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def legend_beside(axes: Axes) -> None:
    """A legend to the right of a picture."""
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
    )


def true_groups(distribution: Sequence[int] | None) -> list[int] | None:
    """The clients' true distributions; None where unknown, or where they group nobody."""
    if distribution is None:
        return None
    groups = len(set(distribution))
    if groups == 1 or groups == len(distribution):
        return None
    return list(distribution)


def group_colors(groups: Sequence[int] | None, clients: int) -> list[str]:
    """One colour for each client, by its group; a negative number is no group."""
    if groups is None:
        return [NO_GROUP] * clients
    distinct = sorted({group for group in groups if group >= 0})
    palette = list(GROUP_COLORS)
    if len(distinct) > len(palette):
        scale = matplotlib.colormaps["turbo"].resampled(len(distinct))
        palette = [to_hex(scale(place)) for place in range(len(distinct))]
    color_of = dict(zip(distinct, palette, strict=False))
    return [color_of.get(group, NO_GROUP) for group in groups]


def thinned(order: Sequence[Item], most: int) -> list[Item]:
    """All of them, or `most` that are taken evenly."""
    if len(order) <= most:
        return list(order)
    evenly = np.linspace(0, len(order) - 1, most).astype(int)
    return [order[place] for place in evenly]


def chosen(values: Sequence[Item], order: Sequence[int]) -> list[Item]:
    """What belongs to these clients, in this order."""
    return [values[place] for place in order]


def some_of(shown: int, clients: int) -> str:
    """Says that not all clients are drawn, where that is so."""
    if shown >= clients:
        return ""
    return f", {shown} of {clients:,} clients"


def short(name: str, most: int = 22) -> str:
    """A name that fits beside an axis."""
    name = " ".join(name.split())
    if len(name) <= most:
        return name
    return name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def ticks(axes: Axes, which: str, names: Sequence[str]) -> None:
    """Names along an axis of cells: all of them, or as many as can be read."""
    axis: Axis = axes.yaxis
    most = MOST_TICKS
    if which == "x":
        axis = axes.xaxis
        most = MOST_ACROSS

    # Every name, every second, every third, ...
    step = max(math.ceil(len(names) / most), 1)
    places = range(0, len(names), step)
    labels = [short(name) for name in names[::step]]

    look: dict[str, Any] = {"fontsize": 9, "parse_math": False}
    if len(labels) > 20:
        look["fontsize"] = 7
    if which == "x" and _too_wide(labels):
        look |= {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axis.set_ticks(places, labels, **look)


def _too_wide(labels: Sequence[str]) -> bool:
    """Whether labels would touch if they were written side by side."""
    widest = max(map(len, labels), default=0)
    if widest <= 3:
        return False
    needed = (widest + 2) * len(labels)
    return needed > CHARACTERS_ACROSS


def heat(axes: Axes, values: Array, top: float, show: Callable[[Any], str], unit: str) -> None:
    """Cells from light to dark; where there are few enough, `show` gives the text of each.

    Where there are too many for that, a key beside them says what the shades stand for.
    """
    image = axes.imshow(
        values,
        cmap=BLUES,
        vmin=0,
        vmax=top or 1,
        aspect="auto",
        interpolation="nearest",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK, pad=9)
    _quiet_labels(axes)
    if max(values.shape) <= MOST_CELLS_WITH_TEXT:
        _cell_texts(axes, values, top, show)
    else:
        _key_of_shades(axes, image, unit)


def _key_of_shades(axes: Axes, image: AxesImage, unit: str) -> None:
    """A bar above the cells with all shades, and the values that they stand for."""
    inside = (0.62, 1.02, 0.38, 0.022)  # left, bottom, width, height; the axes have 1 by 1
    bar = axes.figure.colorbar(
        image, cax=axes.inset_axes(inside), orientation="horizontal", ticklocation="top"
    )
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(3, integer=True)
    bar.ax.tick_params(length=0, labelsize=7.5, labelcolor=SOFT, pad=1)
    bar.ax.text(
        -0.04,
        0.5,
        unit,
        transform=bar.ax.transAxes,
        ha="right",
        va="center",
        fontsize=8,
        color=SOFT,
    )


def _cell_texts(axes: Axes, values: Array, top: float, show: Callable[[Any], str]) -> None:
    """The text in every cell, and white lines between cells."""
    rows, columns = values.shape
    for place in range(1, rows):
        axes.axhline(place - 0.5, color="white", linewidth=1)
    for place in range(1, columns):
        axes.axvline(place - 0.5, color="white", linewidth=1)
    for (row, column), value in np.ndenumerate(values):
        color = INK
        if value > DARK_CELL * top:
            color = "white"
        axes.text(
            column,
            row,
            show(value),
            ha="center",
            va="center",
            fontsize=8.5,
            color=color,
        )


def mark_groups(
    axes: Axes, groups: Sequence[int], colors: Sequence[str], names: Mapping[int, str], sides: str
) -> None:
    """Coloured strips along the cells (`x`: below, `y`: right), and lines between groups.

    `groups` and `colors` are those of the rows from top to bottom. The name of a group stands
    beside its strip.
    """
    for side in sides:
        _strip(axes, side, colors)
    width = 3
    if len(groups) > MOST_TICKS:
        width = 1
    borders = np.flatnonzero(np.diff(groups)) + 0.5
    for place in borders:
        axes.axhline(place, color="white", linewidth=width)
        if "x" in sides:
            axes.axvline(place, color="white", linewidth=width)

    first = -0.5
    for last in [*borders.tolist(), len(groups) - 0.5]:
        if last - first >= LEAST_NAMED * len(groups):
            _beside_strip(axes, (first + last) / 2, names[groups[round(first + 0.5)]])
        first = last


def _beside_strip(axes: Axes, row: float, name: str) -> None:
    """The name of a group, to the right of its strip."""
    axes.annotate(
        name,
        (1.0, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(12, 0),
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=8.5,
        color=SOFT,
    )


def _strip(axes: Axes, side: str, colors: Sequence[str]) -> None:
    """A strip just outside the cells, as wide on paper whatever the size of the axes."""
    lines = []
    for place in range(len(colors)):
        start = place - 0.5
        end = place + 0.5
        if side == "x":
            lines.append([(start, 0.0), (end, 0.0)])
        else:
            lines.append([(1.0, start), (1.0, end)])

    # Along the cells the unit is a cell; across, the strip lies on the edge and is moved outwards.
    away = 5 / 72  # inches
    inches = axes.figure.dpi_scale_trans
    if side == "x":
        edge = blended_transform_factory(axes.transData, axes.transAxes)
        moved = ScaledTranslation(0, -away, inches)
    else:
        edge = blended_transform_factory(axes.transAxes, axes.transData)
        moved = ScaledTranslation(away, 0, inches)
    strip = LineCollection(
        lines,
        colors=colors,
        linewidths=5,
        capstyle="butt",
        transform=edge + moved,
        clip_on=False,
    )
    axes.add_collection(strip, autolim=False)


def render(figure: Figure) -> bytes:
    """The figure as a PNG."""
    buffer = io.BytesIO()
    # `savefig` draws everything twice, the first time only to lay it out.
    figure.set_dpi(DPI)
    with _missing_letters_are_boxes():
        FigureCanvasAgg(figure).print_png(buffer)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def render_for_paper(figure: Figure) -> bytes:
    """The figure as a PDF: lines and letters that stay sharp at any size, and can be searched."""
    buffer = io.BytesIO()
    figure.set_dpi(DPI)
    canvas = FigureCanvasPdf(figure)
    # Letters as outlines of type 3, the default, are refused by many conferences and journals.
    with _missing_letters_are_boxes(), matplotlib.rc_context({"pdf.fonttype": 42}):
        # Without a date, so that the same results always give the same file.
        canvas.print_pdf(buffer, metadata={"CreationDate": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


@contextmanager
def _missing_letters_are_boxes() -> Iterator[None]:
    """A name in a script that the font lacks is drawn as boxes; the terminal need not know."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
