"""The local server of the page: reads the folder, changes nothing, answers only who has its link.

Every request must come from the page itself: with the token of the printed link, under a host name
that the server goes by, and from no other origin.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import (
    FileResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from federico.ui.answers import Answers, NoneOfThatNameError
from federico.ui.folder import Watch, changed
from federico.ui.readable import UnreadableError
from federico.ui.static_files import PAGE, SCRIPTS, STATIC, STYLE

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
Answer = Callable[[Request], Awaitable[Response]]
Name = Annotated[str, Query(max_length=500)]


def create_app(folder: Path, token: str, hosts: set[str]) -> FastAPI:
    """The application; `hosts` are the values of the Host header that it answers to."""
    app = FastAPI(title="federico ui", docs_url=None, redoc_url=None)
    answers = Answers(folder)
    watch = Watch(folder, LOOK_EVERY / 2)
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

    @app.exception_handler(UnreadableError)
    async def explain(_: Request, error: UnreadableError) -> Response:
        return JSONResponse({"detail": str(error), "advice": error.advice}, status_code=409)

    @app.exception_handler(NoneOfThatNameError)
    async def unknown(_: Request, error: NoneOfThatNameError) -> Response:
        return JSONResponse({"detail": str(error)}, status_code=404)

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

    @app.get("/api/folder")
    def folder_shown() -> Response:
        return _json(answers.folder())

    @app.get("/api/runs")
    def runs() -> Response:
        return _json(answers.runs())

    @app.get("/api/run", responses=UNHAPPY)
    def run(run: Name) -> Response:
        return _json(answers.run(run))

    @app.get("/api/compare", responses=UNHAPPY)
    def compare(run: Annotated[list[str], Query(min_length=1, max_length=20)]) -> Response:
        return _json(answers.compare(run))

    @app.get("/api/cell", responses=UNHAPPY)
    def cell(run: Name, cell: Name) -> Response:
        return _json(answers.cell(run, cell))

    @app.get("/api/client", responses=UNHAPPY)
    def client(run: Name, cell: Name, client: Name) -> Response:
        return _json(answers.client(run, cell, client))

    @app.get("/api/network")
    def network() -> Response:
        return _json(answers.network())

    @app.get("/api/site", responses=UNHAPPY)
    def site(site: Name) -> Response:
        return _json(answers.site(site))

    @app.get("/api/events", include_in_schema=False)
    async def events(request: Request) -> Response:
        return StreamingResponse(_changes(watch, request), media_type="text/event-stream")

    return app


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


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


async def _changes(watch: Watch, request: Request) -> AsyncIterator[str]:
    """An event for every change in the folder: the names of the runs and sites that changed."""
    before = await asyncio.to_thread(watch.look)
    yield "retry: 2000\n\n"
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK_EVERY)
        now = await asyncio.to_thread(watch.look)
        names = changed(before, now)
        before = now
        if names:
            yield f"data: {json.dumps(names)}\n\n"
        else:
            yield ": still here\n\n"
