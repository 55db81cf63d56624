"""The commands of a real federation: certificates, a site's peer, a relay, and a whole federation on one machine."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class PeerCommands(TyperGroup):
    """`federico peer site.toml` is short for `federico peer run site.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the command that was left out."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


pki_app = typer.Typer(help="Certificates: who is who in a federation.", no_args_is_help=True)
peer_app = typer.Typer(
    cls=PeerCommands, help="Run one site's peer, check it, look at it.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. federico.epsilon=0.1."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
SiteFile = Annotated[Path, typer.Argument(help="Site file (TOML).")]
Authority = Annotated[
    Path, typer.Option("--ca", help="Folder of the authority: ca.pem and ca.key.")
]
Days = Annotated[int, typer.Option(help="Days the certificate is valid.", min=1, max=825)]
Keys = Annotated[Path, typer.Option(help="Folder of the site's key and certificate.")]


@pki_app.command("init")
def pki_init(
    folder: Annotated[Path, typer.Argument(help="Where ca.pem and ca.key are written.")] = Path(
        "ca"
    ),
    name: Annotated[str, typer.Option(help="Name of the authority.")] = "federation",
) -> None:
    """Make the federation's certificate authority."""
    from federico.cli.pki import init

    init(folder, name)


@pki_app.command("request")
def pki_request(
    name: Annotated[str, typer.Argument(help="The peer's name, as in the federation's members.")],
    address: Annotated[
        list[str],
        typer.Option(help="Host name or IP address that others dial; several times for several."),
    ] = [],  # noqa: B006 (typer copies it)
    keys: Keys = Path("keys"),
) -> None:
    """On the site: make a key, which stays, and a request to be signed."""
    from federico.cli.pki import request

    request(name, address, keys)


@pki_app.command("approve")
def pki_approve(
    request: Annotated[Path, typer.Argument(help="A site's request (.csr).")],
    ca: Authority = Path("ca"),
    days: Days = 90,
) -> None:
    """At the authority: sign a request whose sender you know; the certificate appears beside it."""
    from federico.cli.pki import approve

    approve(request, ca, days)


@pki_app.command("renew")
def pki_renew(
    certificate: Annotated[Path, typer.Argument(help="The certificate to be replaced (.pem).")],
    ca: Authority = Path("ca"),
    days: Days = 90,
) -> None:
    """At the authority: give a certificate a new life; the site's key stays what it is."""
    from federico.cli.pki import renew

    renew(certificate, ca, days)


@pki_app.command("show")
def pki_show(
    certificates: Annotated[list[Path], typer.Argument(help="Certificates (.pem).")],
    json: Json = False,
) -> None:
    """Tell what certificates say."""
    from federico.cli.pki import show

    show(certificates, as_json=json)


@peer_app.command("run")
def peer_run(file: SiteFile, quiet: Quiet = False) -> None:
    """Join, train, serve; goes on where it was. Ctrl-C or SIGTERM: finish the round, save, leave."""
    from federico.cli.peer import run

    run(file, quiet=quiet)


@peer_app.command("check")
def peer_check(file: SiteFile, json: Json = False) -> None:
    """Tell what would fail, before anything starts."""
    from federico.cli.peer import check_site

    check_site(file, as_json=json)


@peer_app.command("status")
def peer_status(file: SiteFile, json: Json = False) -> None:
    """Tell how the peer is doing: round, accuracy, collaborators, bytes, who is away."""
    from federico.cli.peer import show_status

    show_status(file, as_json=json)


def relay(
    federation: Annotated[Path, typer.Argument(help="Federation file (TOML).")],
    name: Annotated[str, typer.Option(help="The relay's name, as in the federation's relays.")],
    listen: Annotated[list[str], typer.Option(help="Address to listen on, such as 0.0.0.0:7447.")],
    keys: Keys = Path("keys"),
    quiet: Quiet = False,
) -> None:
    """Pass on the messages of sites that can only dial out; needs no data and sees who talks to whom."""
    from federico.cli.peer import relay as run

    run(federation, name, keys, listen, quiet=quiet)


def launch(
    peers: Annotated[int, typer.Argument(help="How many peers.", min=2)],
    file: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Where certificates and sites are kept; a throw-away folder if not given."
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Try it: a federation of real peer processes on this machine, with throw-away certificates."""
    from federico.cli.launch import launch_experiment

    launch_experiment(peers, file, overrides, directory, quiet=quiet, as_json=json)
