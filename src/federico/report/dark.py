"""A figure for a dark page: the same drawing, with ink and paper exchanged."""

import io

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from PIL import Image

from federico.report.drawing import AXIS, BLUES, FAINT, INK, SOFT

CARD = "#1D2129"
"""What figures lie on in a dark page; the style sheet of `federico ui` has it too."""
EXCHANGED = {
    "#FFFFFF": CARD,
    INK: "#E8EAEE",
    "#000000": "#E8EAEE",
    SOFT: "#A3ABB8",
    AXIS: "#5B6270",
    FAINT: "#343A45",
}
"""Paper and ink, and what takes their place."""
DARK_BLUES = LinearSegmentedColormap.from_list(
    "trust on dark", ["#232933", "#1B4F72", "#3D9BDC", "#BFE3FA"]
)
LEAST_CONTRAST = 4.0
"""Of any other colour against the card; what has less is mixed with white."""

PALE, COLORED = 0.12, 0.32
"""How far the largest and smallest part of a picture's pixel differ that is as good as grey, and of
one that is coloured."""
LEAST_LIGHTNESS = 0.5
"""Of what is coloured, in a picture that was turned dark."""


def darken(figure: Figure) -> None:
    """Recolour a figure that was drawn before, for good.

    Ticks and their labels exist only once they are drawn.
    """
    for artist in figure.findobj():
        _recolor(artist)


def darkened(png: bytes) -> bytes:
    """A picture of which only the PNG is there, for a dark page: light is exchanged for dark.

    What is kept of earlier runs cannot be drawn again. Hues stay what they were. A colour
    that is light already is not turned all the way: a pink line would be too dark to see.
    """
    with Image.open(io.BytesIO(png)) as image:
        light = np.asarray(image.convert("RGB"), dtype=np.float64) / 255  # [rows, columns, 3]
    most = light.max(-1, keepdims=True)
    least = light.min(-1, keepdims=True)
    lightness = (most + least) / 2

    # From 0, as good as grey, to 1, coloured.
    difference = most - least
    colored = np.clip((difference - PALE) / (COLORED - PALE), 0, 1)
    exchanged = 1 - lightness
    wanted = np.maximum(exchanged, LEAST_LIGHTNESS * colored)

    # Adding the same to all three changes the lightness and leaves the hue alone.
    turned = light + wanted - lightness
    paper = np.array(to_rgb(CARD))
    ink = np.array(to_rgb(EXCHANGED[INK]))
    dark = paper + turned * (ink - paper)
    pixels = np.rint(255 * dark).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def on_dark(color: str) -> str:
    """The colour that stands for this one on a dark page: of the same hue, light enough to see."""
    color = color.upper()
    if color in EXCHANGED:
        return EXCHANGED[color]
    while contrast(color, CARD) < LEAST_CONTRAST:
        color = _lighter(color)
    return color


def contrast(one: str, other: str) -> float:
    """How well two colours are told apart, from 1 to 21 (the ratio of WCAG)."""
    lighter, darker = sorted([_luminance(one), _luminance(other)], reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    red, green, blue, _ = (_linear(part) for part in to_rgba(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    """A part of a colour as light, without the curve of screens."""
    if part <= 0.04045:
        return part / 12.92
    linear: float = ((part + 0.055) / 1.055) ** 2.4
    return linear


def _lighter(color: str) -> str:
    """A little white mixed into it."""
    red, green, blue, _ = (part + 0.06 * (1 - part) for part in to_rgba(color))
    return to_hex((red, green, blue))


def _recolor(artist: Artist) -> None:
    if isinstance(artist, Text):
        artist.set_color(_exchanged(artist.get_color()))
    elif isinstance(artist, Line2D):
        artist.set_color(_exchanged(artist.get_color()))
        artist.set_markerfacecolor(_exchanged(artist.get_markerfacecolor()))
        artist.set_markeredgecolor(_exchanged(artist.get_markeredgecolor()))
    elif isinstance(artist, Patch):
        artist.set_facecolor(_exchanged(artist.get_facecolor()))
        artist.set_edgecolor(_exchanged(artist.get_edgecolor()))
    elif isinstance(artist, Collection):
        artist.set_facecolor([_exchanged(each) for each in artist.get_facecolor()])
        artist.set_edgecolor([_exchanged(each) for each in artist.get_edgecolor()])
    elif isinstance(artist, AxesImage) and artist.get_cmap() == BLUES:
        artist.set_cmap(DARK_BLUES)


def _exchanged(color: object) -> tuple[float, float, float, float]:
    """Any colour of matplotlib, with the transparency that it had."""
    red, green, blue, alpha = to_rgba(color)  # type: ignore[arg-type]
    if alpha == 0:
        return (red, green, blue, alpha)
    replaced = on_dark(to_hex((red, green, blue)))
    return to_rgba(replaced, alpha)
