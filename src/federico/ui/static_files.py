"""The files of the page that are the same for everybody."""

import base64
import hashlib
from pathlib import Path

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
STYLE = "style.css"
SCRIPTS = (
    "elements.js",
    "words.js",
    "source.js",
    "hands.js",
    "renew.js",
    "charts.js",
    "runs.js",
    "compare.js",
    "worth.js",
    "client.js",
    "trust.js",
    "cost.js",
    "data.js",
    "network.js",
    "site.js",
    "live.js",
    "app.js",
)
"""Each after those that it imports from."""


def digest(text: str) -> str:
    """What a content security policy names an inline script or style by."""
    hashed = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(hashed).decode('ascii')}"
