"""Draw protocol.png: what two peers say to each other in a round.

Usage: python docs/protocol.py
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from federico.report.dark import darkened

VISITOR, OWNER = 2.6, 7.4
INK, BLUE, GREEN, SAND = "#222222", "#1f5fa8", "#2e7d4f", "#f3ead9"


def draw() -> Figure:
    """Two lifelines, time going down."""
    mpl.rcParams["font.family"] = "DejaVu Sans"
    figure = Figure(figsize=(9, 8.6), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10), ylim=(9.6, 0.0))
    axes.axis("off")
    axes.text(
        5,
        0.35,
        "One visit: peer i and the model of peer b",
        ha="center",
        va="center",
        size=14,
        weight="bold",
    )
    for x, name in ((VISITOR, "peer i  (visitor)"), (OWNER, "peer b  (owner)")):
        _box(axes, x, 0.95, 2.6, 0.5, name, weight="bold")
        axes.plot([x, x], [1.2, 9.1], color="#999999", lw=1, zorder=0)
    axes.text(
        5, 0.95, "mutual TLS\nname = certificate", ha="center", va="center", size=8, color="#666666"
    )
    _step(axes, 1.75, "sample", "i chooses b, by its posterior\nof the round before")
    _say(axes, 2.42, VISITOR, OWNER, "request-model: nonce, version", BLUE)
    _say(axes, 2.95, OWNER, VISITOR, "announcement signed by b: version, digests, nonce", BLUE)
    _say(axes, 3.55, VISITOR, OWNER, "request-chunk k; not sent if i has this very model", BLUE)
    _say(axes, 4.1, OWNER, VISITOR, "chunk k; four under way at a time", BLUE)
    _step(axes, 4.75, "E-step", "loss of b's model on i's data\n→ tracked loss → posterior row")
    _step(
        axes,
        5.6,
        "M-step",
        "i trains a copy on its own data;\nnothing, if the weight is below w_min",
    )
    _say(
        axes, 6.3, VISITOR, OWNER, "offer-update signed by i: coefficient, digests, version", GREEN
    )
    _say(axes, 6.85, OWNER, VISITOR, "acknowledged; refused if too old or said before", GREEN)
    _say(axes, 7.4, VISITOR, OWNER, "upload-chunk k, each acknowledged", GREEN)
    _box(
        axes,
        OWNER,
        8.3,
        3.9,
        0.85,
        "update: at the end of b's own round,\nwhole and finite updates are clipped, averaged",
        size=8.5,
    )
    _box(
        axes,
        VISITOR,
        8.3,
        3.9,
        0.85,
        "predict: the mixture of the models\nthat i's posterior trusts",
        size=8.5,
    )
    axes.text(
        5,
        9.35,
        "What has not come by the deadline is left out. Data never leaves a site.",
        ha="center",
        va="center",
        size=9,
    )
    return figure


def _say(axes: Axes, y: float, start: float, end: float, text: str, color: str) -> None:
    axes.annotate(
        "", (end, y), (start, y), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 1.6}
    )
    axes.text(5, y - 0.07, text, ha="center", va="bottom", size=8.5, color=color)


def _step(axes: Axes, y: float, name: str, text: str) -> None:
    _box(axes, VISITOR, y, 3.9, 0.62, f"{name}: {text}", size=8.5)


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, **font: object
) -> None:
    corner = (x - width / 2, y - height / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner, width, height, boxstyle="round,pad=0.02", fc=SAND, ec="#b9a67e", lw=1
        )
    )
    axes.text(x, y, text, ha="center", va="center", color=INK, **{"size": 10, **font})  # type: ignore[arg-type]


if __name__ == "__main__":
    written = Path(__file__).with_name("protocol.png")
    draw().savefig(written)
    written.with_name("protocol-dark.png").write_bytes(darkened(written.read_bytes()))
