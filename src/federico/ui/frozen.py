"""The report: the views of one run frozen into one file that opens from disk without a server."""

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from federico.errors import FedericoError
from federico.report.drawing import thinned
from federico.report.table_summary import Summary
from federico.report.writing import write_tables_and_pictures
from federico.runs.atomic import publish_text
from federico.ui.cell_view import cell_view
from federico.ui.client_view import client_view
from federico.ui.plain import Plain
from federico.ui.rounds import ShownCell, read_cell
from federico.ui.run_view import run_view, shown_cells
from federico.ui.static_files import PAGE, SCRIPTS, STATIC, STYLE, digest

REPORT = "report.html"
MOST_BYTES = 6_000_000
"""Cells, and then their clients, are put into a report as long as it stays below this."""
SAMPLE = 32
"""Clients whose views tell how large those of all clients are."""
SURE = 1.1
"""They are left out at once if these say that all take this many times the room there is."""
FEWEST_ROUNDS = 50
"""Rounds of a client are left out only as long as there are more than this."""
IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def write_report(folder: Path, summary: Summary) -> Path:
    """Write page, pictures and tables of a run or of kept results; returns the page.

    `summary` is that of the folder, see `summarize`.
    """
    write_tables_and_pictures(folder, summary)
    page = folder / REPORT
    publish_text(page, frozen_page(folder, summary=summary))
    return page


def frozen_page(folder: Path, most: int = MOST_BYTES, summary: Summary | None = None) -> str:
    """The page with its scripts, its style and all that it shows, as far as it fits into `most`.

    `summary` is that of the folder, if it is known already.
    """
    name = folder.resolve().name
    run = run_view(name, folder, summary)
    # The picture in the manner of the paper lies beside the report too.
    if len(json.dumps(run["figure"])) > most // 4:
        run["figure"] = None
    held: dict[str, str] = {}
    room = most - len(packed_view(run))
    left_out = 0
    without_clients = 0
    thinned = 1
    cells = []
    for line, cell in zip(run["cells"], shown_cells(folder), strict=True):
        try:
            shown = read_cell(cell.path)
        except FedericoError:
            continue  # it has no whole round yet, or its records are damaged
        packed = packed_view(cell_view(shown))
        if len(packed) > room:
            left_out += 1
            continue
        held[key_of("cell", name, cell.path.name)] = packed
        cells.append(line)
        room -= len(packed)

        clients, every = _clients(name, shown, room)
        if not clients:
            without_clients += 1
        thinned = max(thinned, every)
        held |= clients
        room -= _size(clients)
    run |= {"cells": cells, "left_out": left_out, "without_clients": without_clients}
    run["thinned"] = thinned
    held[key_of("run", name)] = packed_view(run)
    return frozen_document(run["title"], {"home": name, "held": held})


def _clients(run: str, shown: ShownCell, room: int) -> tuple[dict[str, str], int]:
    """The views of all clients of a cell, and that they show every how many of the cell's rounds.

    All rounds, or every second, fourth and so on where more do not fit; no views where a few
    rounds do not fit either.
    """
    every = 1
    while True:
        packed = _clients_at_these_rounds(run, shown, room)
        if packed or len(shown.rounds) < FEWEST_ROUNDS:
            return packed, every if packed else 1
        every *= 2
        shown = replace(shown, rounds=[*shown.rounds[:-1:2], shown.rounds[-1]])


def _clients_at_these_rounds(run: str, shown: ShownCell, room: int) -> dict[str, str]:
    """The views of all clients of a cell; none where they do not fit.

    Whether they will is told from some of them: to make those of thousands would take minutes.
    """
    clients = shown.about.clients
    some = thinned(clients, SAMPLE)
    expected = sum(len(packed_view(client_view(shown, client))) for client in some)
    if expected * len(clients) > SURE * len(some) * room:
        return {}

    packed: dict[str, str] = {}
    size = 0
    for client in clients:
        view = packed_view(client_view(shown, client))
        packed[key_of("client", run, shown.path.name, client)] = view
        size += len(view)
        if size > room:
            return {}
    return packed


def _size(packed: Mapping[str, str]) -> int:
    return sum(len(each) for each in packed.values())


def key_of(*parts: str) -> str:
    """What the scripts ask for; see `load` in source.js."""
    return "\n".join(parts)


def packed_view(shown: Plain | list[Plain]) -> str:
    """Compressed; the browser unpacks what it shows."""
    text = json.dumps(shown, allow_nan=False, separators=(",", ":"))
    # Without a time, so that the same run always gives the same file.
    packed = gzip.compress(text.encode(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def frozen_document(title: str, frozen: Plain) -> str:
    """The page of the server with everything inside. Nothing from elsewhere is allowed to run.

    `frozen` has under `held` all that the scripts ask for, packed, and under `home` the run that
    it is about; none for a site.
    """
    style = (STATIC / STYLE).read_text(encoding="utf-8")
    script = _one_script()
    policy = (
        f"default-src 'none'; img-src data:; style-src '{digest(style)}'; "
        f"script-src '{digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    # A name that holds HTML must not end the element that holds the data.
    data = json.dumps(frozen).replace("<", "\\u003c")
    inside = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{html.escape(title)} - FedeRiCo report</title>\n"
        f"<style>{style}</style>\n"
        f'<script type="application/json" id="frozen">{data}</script>\n'
        f'<script type="module">{script}</script>'
    )
    page = (STATIC / PAGE).read_text(encoding="utf-8")
    before, _, rest = page.partition("<!-- from here on by the server -->\n")
    _, _, after = rest.partition("<!-- up to here by the server -->")
    return before + inside + after


def _one_script() -> str:
    """All modules as one: a page from disk may not import files beside it.

    Each stays in a scope of its own, and gives to those after it what it exports.
    """
    parts = []
    for name in SCRIPTS:
        text = IMPORT.sub("", (STATIC / name).read_text(encoding="utf-8"))
        exported = ", ".join(EXPORT.findall(text))
        inside = EXPORT.sub("", text)
        parts.append(
            f"const {{ {exported} }} = (() => {{\n{inside}\nreturn {{ {exported} }};\n}})();\n"
        )
    return "\n".join(parts)
