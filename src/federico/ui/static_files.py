"""The files of the page that are the same for everybody."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
STYLE = "style.css"
SCRIPTS = (
    "elements.js",
    "words.js",
    "charts.js",
    "source.js",
    "runs.js",
    "compare.js",
    "worth.js",
    "client.js",
    "trust.js",
    "cost.js",
    "data.js",
    "network.js",
    "app.js",
)
"""Each after those that it imports from."""
