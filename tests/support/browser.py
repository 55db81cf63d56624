"""A real browser for tests, and the page in it. Tests that need it are skipped where it is missing.

Pictures of what it showed are kept in `build/screenshots`, for people to look at.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
FLAGS = [
    "--no-sandbox",  # Chromium refuses to run as root, as in containers, without
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDTHS = {"phone": 390, "desk": 1280, "projector": 1920}
PATIENCE = 60_000
"""Milliseconds until a test gives up on something that should be shown; machines may be busy."""

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed: `apt-get install chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


class Serve:
    """Runs `federico ui` over a folder and gives the printed link."""

    def __init__(self) -> None:
        self._servers: list[subprocess.Popen[str]] = []

    def __call__(self, folder: Path) -> str:
        command = [sys.executable, "-m", "federico", "ui", str(folder)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._servers.append(server)
        assert server.stdout is not None
        return server.stdout.readline().strip()

    def end(self) -> None:
        """End all servers."""
        for server in self._servers:
            server.terminate()
            server.communicate()
        self._servers.clear()


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = Serve()
    yield servers
    servers.end()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[OpenPage]:
    """Opens a page; in the end none may have failed or have asked another machine for anything."""
    contexts = []
    wrong: list[str] = []
    asked: list[str] = []

    def open_link(link: str, width: int = 1280, scheme: str = "light", **options: object) -> "Page":
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            **options,  # type: ignore[arg-type]
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        # All that any frame or worker asks for, whatever came of it.
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(link)
        return page

    yield open_link
    for context in contexts:
        context.close()
    assert wrong == []
    assert [url for url in asked if not _is_here(url)] == []


def _is_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("data", "blob", "file") or parts.hostname == "127.0.0.1"


def picture(page: "Page", name: str) -> None:
    """Keep what the page shows."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def home_of(link: str) -> str:
    """The address without the token, as it stands in the browser."""
    return link.split("?", maxsplit=1)[0]


def show(page: "Page", link: str, view: str) -> None:
    """Go to a view and wait until it is there."""
    page.goto("about:blank")
    page.goto(f"{home_of(link)}#/{view}")
    page.locator("main h1").wait_for()
    page.get_by_text("Reading the rounds").wait_for(state="detached")
