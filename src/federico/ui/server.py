"""The local server of the page: reads the folder, changes nothing, answers only who has its link.

Every request must come from the page itself: with the token of the printed link, under a host name
that the server goes by, and from no other origin.
"""

import asyncio
import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import (
    FileResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from federico.errors import FedericoError
from federico.ui.cell_view import cell_view
from federico.ui.client_view import client_view
from federico.ui.compare_view import compare_view
from federico.ui.folder import find_runs, find_sites, signature
from federico.ui.network_view import site_view
from federico.ui.rounds import ShownCell, read_cell
from federico.ui.run_view import run_view, shown_cells
from federico.ui.runs_view import run_line
from federico.ui.static_files import PAGE, SCRIPTS, STATIC, STYLE

MOST_KEPT = 64
"""Answers that are kept until a file changes."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the folder while a page is open."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
UNHAPPY: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is none of that name."},
    409: {"description": "It is broken, or being written."},
}
T = TypeVar("T")
Answer = Callable[[Request], Awaitable[Response]]
Name = Annotated[str, Query(max_length=500)]
UNREADABLE = (FedericoError, OSError, ValueError, TypeError, KeyError, IndexError)
"""What reading a broken or half-written run directory may raise."""


def create_app(folder: Path, token: str, hosts: set[str]) -> FastAPI:
    """The application; `hosts` are the values of the Host header that it answers to."""
    app = FastAPI(title="federico ui", docs_url=None, redoc_url=None)
    kept = Kept()
    cookie = f"federico-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    @app.middleware("http")
    async def guard(request: Request, answer: Answer) -> Response:
        refusal = _refusal(request, token, cookie, hosts)
        if refusal:
            response: Response = JSONResponse({"detail": refusal}, status_code=403)
        else:
            response = await answer(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(FedericoError)
    async def explain(_: Request, error: FedericoError) -> Response:
        return JSONResponse({"detail": str(error)}, status_code=409)

    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        if "token" not in request.query_params:
            return FileResponse(STATIC / PAGE)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(cookie, token, httponly=True, samesite="strict")
        return response

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in (STYLE, *SCRIPTS):
            raise HTTPException(404, "no such file")
        return FileResponse(STATIC / name)

    @app.get("/api/runs")
    def runs() -> Response:
        lines = []
        for name, path in find_runs(folder).items():
            lines.append(kept.get(("line", name), path, partial(run_line, name, path)))
        return JSONResponse(lines)

    @app.get("/api/run", responses=UNHAPPY)
    def run(run: Name) -> Response:
        path = _run(folder, run)
        return JSONResponse(kept.get(("run", run), path, partial(run_view, run, path)))

    @app.get("/api/compare", responses=UNHAPPY)
    def compare(run: Annotated[list[str], Query(min_length=1, max_length=20)]) -> Response:
        return JSONResponse(
            _readable(lambda: compare_view({each: _run(folder, each) for each in run}))
        )

    @app.get("/api/cell", responses=UNHAPPY)
    def cell(run: Name, cell: Name) -> Response:
        path = _run(folder, run)
        shown = read(path, run, cell)
        return JSONResponse(kept.get(("cell", run, cell), path, lambda: cell_view(shown)))

    @app.get("/api/client", responses=UNHAPPY)
    def client(run: Name, cell: Name, client: Name) -> Response:
        shown = read(_run(folder, run), run, cell)
        if client not in shown.about.clients:
            raise HTTPException(404, "no such client")
        return JSONResponse(_readable(lambda: client_view(shown, client)))

    def read(path: Path, run: str, cell: str) -> ShownCell:
        return kept.get(("rounds", run, cell), path, lambda: read_cell(_cell(path, cell)))

    @app.get("/api/network")
    def network() -> Response:
        return JSONResponse([site_view(name, path) for name, path in find_sites(folder).items()])

    @app.get("/api/events", include_in_schema=False)
    async def events(request: Request) -> Response:
        return StreamingResponse(_changes(folder, request), media_type="text/event-stream")

    return app


class Kept:
    """What was read of runs, as long as none of their files changes."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, ...], tuple[object, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], path: Path, read: Callable[[], T]) -> T:
        """What is known under this key, or else read now; `path` is the folder of the run."""
        now = signature(path)
        with self._lock:
            before, value = self._found.get(key, (None, None))
        if before != now:
            value = _readable(read)
            with self._lock:
                self._found[key] = (now, value)
                while len(self._found) > MOST_KEPT:
                    self._found.popitem(last=False)
        found: T = value
        return found


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _refusal(request: Request, token: str, cookie: str, hosts: set[str]) -> str:
    """Why a request is not answered; empty if it is."""
    host = request.headers.get("host", "")
    if host not in hosts:
        return "not a name of this server; use the link that `federico ui` printed"
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "requests from other pages are refused"
    of_this_page = ("same-origin", "none")
    is_page = request.url.path == "/"
    if not is_page and request.headers.get("sec-fetch-site", "none") not in of_this_page:
        return "requests from other pages are refused"

    given = request.cookies.get(cookie) or ""
    if is_page and "token" in request.query_params:
        given = request.query_params["token"]
    header = request.headers.get("authorization", "")
    if header.startswith("Bearer "):
        given = header.removeprefix("Bearer ")
    if not secrets.compare_digest(given.encode(), token.encode()):
        return "the token is missing; open the link that `federico ui` printed"
    return ""


def _run(folder: Path, name: str) -> Path:
    """The run of this name; only names that a scan of the folder found are known."""
    path = find_runs(folder).get(name)
    if path is None:
        raise HTTPException(404, "no such run")
    return path


def _cell(run: Path, name: str) -> Path:
    """The folder of a cell of the run."""
    for cell in shown_cells(run):
        if cell.path.name == name:
            return cell.path
    raise HTTPException(404, "no such cell")


def _readable(read: Callable[[], T]) -> T:
    """What was read; a broken or half-written run says what is wrong with it."""
    try:
        return read()
    except UNREADABLE as error:
        raise HTTPException(409, f"cannot be read: {error}") from error


async def _changes(folder: Path, request: Request) -> AsyncIterator[str]:
    """An event for every change in the folder: the names of the runs and sites that changed."""
    before = await asyncio.to_thread(_signatures, folder)
    yield "retry: 2000\n\n"
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK_EVERY)
        now = await asyncio.to_thread(_signatures, folder)
        if now != before:
            before = now
            yield "data: changed\n\n"
        else:
            yield ": still here\n\n"


def _signatures(folder: Path) -> dict[str, object]:
    places = find_runs(folder) | find_sites(folder)
    return {name: signature(path) for name, path in places.items()}
