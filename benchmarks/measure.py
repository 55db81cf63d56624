"""One measurement of one row, in this process: a line of JSON.

Usage: python -m benchmarks.measure ROW [--prepare]
"""

import argparse
import json
import sys

from benchmarks.rows import ROWS
from federico.errors import DataError, MissingDependencyError

MISSING = (DataError, MissingDependencyError)
"""Where something is not there, such as the data: the exit code says so, and the row is left
out."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="only what has to be there before the first measurement",
    )
    arguments = parser.parse_args()
    row = ROWS[arguments.row]
    try:
        if arguments.prepare:
            row.prepare()
        else:
            print(json.dumps(row.measure()))
    except MISSING as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
