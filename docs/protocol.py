"""Draw protocol.png: what two peers say to each other in a round.

The same is drawn a second time, narrower and taller, for telephones.

Usage: python docs/protocol.py
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from federico.report.dark import darkened

INK, BLUE, GREEN, SAND, GREY = "#222222", "#1f5fa8", "#2e7d4f", "#f3ead9", "#666666"
DPI = 150
GAP = 0.16
"""Inches between two things."""
LINE = 0.175
"""Inches from a line of text to the next."""


@dataclass(frozen=True)
class Sheet:
    """Where things are, in inches from the left."""

    width: float
    height: float
    visitor: float
    owner: float
    box: float
    """How wide a box is."""
    margin: float
    """How far boxes stay from the edges."""
    narrow: bool


WIDE = Sheet(9.0, 8.35, visitor=2.3, owner=6.7, box=3.6, margin=0.5, narrow=False)
NARROW = Sheet(4.4, 9.15, visitor=0.75, owner=3.65, box=3.2, margin=0.1, narrow=True)


class Drawing:
    """Two lifelines, time going down."""

    def __init__(self, sheet: Sheet) -> None:
        mpl.rcParams["font.family"] = "DejaVu Sans"
        self.figure = Figure(figsize=(sheet.width, sheet.height), dpi=DPI)
        self._sheet = sheet
        self._axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set(xlim=(0, sheet.width), ylim=(sheet.height, 0))
        self._axes.axis("off")
        self._y = 0.2

    def title(self, text: str) -> None:
        """What the picture shows."""
        self._write(text, self._sheet.width / 2, size=13, weight="bold")
        self._y += GAP

    def peers(self, visitor: str, owner: str, between: str) -> None:
        """The names of both, and what is between them."""
        top = self._y
        for x, name in ((self._sheet.visitor, visitor), (self._sheet.owner, owner)):
            self._y = top
            self._box(x, 1.3, name, weight="bold")
        self._y = top + 0.1
        self._write(between, self._sheet.width / 2, size=8, color=GREY)
        self._y = top + 3 * LINE + GAP
        for x in (self._sheet.visitor, self._sheet.owner):
            self._axes.plot(
                [x, x], [self._y - GAP, self._sheet.height - 0.5], color="#999999", lw=1, zorder=0
            )

    def visitor_does(self, text: str) -> None:
        """A step of the visitor, in a box on its line."""
        middle = self._sheet.margin + self._sheet.box / 2
        self._box(middle, self._sheet.box, text)
        self._y += GAP

    def owner_does(self, text: str) -> None:
        """A step of the owner, in a box on its line."""
        middle = self._sheet.width - self._sheet.margin - self._sheet.box / 2
        self._box(middle, self._sheet.box, text)
        self._y += GAP

    def says(self, text: str, color: str, *, back: bool = False) -> None:
        """A message, from the visitor to the owner or back."""
        if not self._sheet.narrow:
            text = text.replace("\n", " ")
        start, end = self._sheet.visitor, self._sheet.owner
        if back:
            start, end = end, start
        self._write(text, (start + end) / 2, size=9, color=color)
        self._y += 0.06
        arrow = {"arrowstyle": "-|>", "color": color, "lw": 1.6}
        self._axes.annotate("", (end, self._y), (start, self._y), arrowprops=arrow)
        self._y += GAP

    def foot(self, text: str) -> None:
        """A sentence at the bottom."""
        self._y = self._sheet.height - 2 * LINE - 0.1
        self._write(text, self._sheet.width / 2, size=9)

    def _box(self, middle: float, width: float, text: str, **font: str) -> None:
        height = LINE * (text.count("\n") + 1) + 0.2
        corner = (middle - width / 2, self._y)
        shape = FancyBboxPatch(
            corner, width, height, boxstyle="round,pad=0.02", fc=SAND, ec="#b9a67e", lw=1
        )
        self._axes.add_patch(shape)
        self._axes.text(
            middle,
            self._y + height / 2,
            text,
            ha="center",
            va="center",
            size=9,
            color=INK,
            **font,  # type: ignore[arg-type]
        )
        self._y += height

    def _write(self, text: str, x: float, *, size: float, color: str = INK, **font: str) -> None:
        for line in text.split("\n"):
            self._axes.text(
                x,
                self._y + LINE / 2,
                line,
                ha="center",
                va="center",
                size=size,
                color=color,
                # A line of life must not run through the words.
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
                **font,  # type: ignore[arg-type]
            )
            self._y += LINE


def draw(sheet: Sheet) -> Figure:
    """One visit from its beginning to its end."""
    drawing = Drawing(sheet)
    drawing.title("One visit: peer i and the model of peer b")
    drawing.peers("peer i\n(visitor)", "peer b\n(owner)", "mutual TLS\nname = certificate")
    drawing.visitor_does("sample: i chooses b, by its posterior\nof the round before")
    drawing.says("request-model: nonce, version", BLUE)
    drawing.says("announcement signed by b:\nversion, digests, nonce", BLUE, back=True)
    drawing.says("request-chunk k;\nnot sent if i has this very model", BLUE)
    drawing.says("chunk k; four under way at a time", BLUE, back=True)
    drawing.visitor_does("E-step: loss of b's model on i's data\n→ tracked loss → posterior row")
    drawing.visitor_does(
        "M-step: i trains a copy on its own data;\nnothing, if the weight is below w_min"
    )
    drawing.says("offer-update signed by i:\ncoefficient, digests, version", GREEN)
    drawing.says("acknowledged;\nrefused if too old or said before", GREEN, back=True)
    drawing.says("upload-chunk k, each acknowledged", GREEN)
    drawing.owner_does(
        "update: at the end of b's own round,\nwhole and finite updates are clipped,\naveraged"
    )
    drawing.visitor_does(
        "predict: the mixture of the models that\ni's posterior trusts and of the one\n"
        "that i trains alone"
    )
    drawing.foot("What has not come by the deadline is left out.\nData never leave a site.")
    return drawing.figure


if __name__ == "__main__":
    for name, sheet in (("protocol", WIDE), ("protocol-narrow", NARROW)):
        written = Path(__file__).with_name(f"{name}.png")
        draw(sheet).savefig(written)
        written.with_name(f"{name}-dark.png").write_bytes(darkened(written.read_bytes()))
