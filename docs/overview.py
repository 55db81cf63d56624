"""Draw overview.png of the README from a run of experiments/digits.toml.

Usage: python docs/overview.py runs/digits (after `make demo`)
"""

import sys
from pathlib import Path

from federico.report import summarize
from federico.report.details import read_details
from federico.report.figures import overview
from federico.report.writing import publish_picture

DOCS = Path(__file__).parent


def main(run: Path) -> None:
    """A wide picture, and one with its parts below each other that is shown on telephones."""
    summary = summarize(run)
    trusted = read_details(run, summary.table).posteriors
    publish_picture(DOCS, "overview", overview(summary, trusted))
    publish_picture(DOCS, "overview-narrow", overview(summary, trusted, narrow=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
