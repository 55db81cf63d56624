"""`federico ui`."""

import ipaddress
import socket
from pathlib import Path
from typing import Annotated

import typer

from federico.cli.console import PLAIN, out
from federico.errors import ConfigError, NetworkError


def ui(
    folder: Annotated[
        Path, typer.Argument(help="Folder with run directories or sites' state folders.")
    ] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen on: the one that people will type.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port (default: a free one).", min=0, max=65535)] = 0,
) -> None:
    """Look at runs and sites in a browser, while they run or afterwards."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder.absolute()}: not a folder; name one with run directories, such as runs"
        )
    if host in ("0.0.0.0", "::", ""):
        raise ConfigError(f"--host {host!r}: name the address that people will type instead")

    import uvicorn

    from federico.ui.server import create_app, new_token

    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise NetworkError(f"{host}:{port}: cannot be listened on: {error.strerror}") from None
    port = listening.getsockname()[1]
    hosts = {f"{host}:{port}"}
    if _is_loopback(host):
        hosts.add(f"localhost:{port}")
    token = new_token()
    out.print(f"http://{host}:{port}/?token={token}", **PLAIN)
    out.print("Whoever has this link can look at the folder. Ctrl-C ends it.", **PLAIN)
    config = uvicorn.Config(
        create_app(folder, token, hosts), log_level="warning", timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
