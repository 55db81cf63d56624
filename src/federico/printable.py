"""Text that may come from a stranger, made harmless for a terminal."""

import re

ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, change colors, or turn round the order of letters; tabs and
ends of lines do no harm."""


def printable(text: str) -> str:
    """The text with a mark in the place of every character that a terminal would obey."""
    return ORDERS.sub("\N{REPLACEMENT CHARACTER}", text)
