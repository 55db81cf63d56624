"""`federico pki init`, `request`, `approve`, `renew` and `show`."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from federico.cli.console import PLAIN, out, print_json
from federico.cli.options import Json
from federico.errors import IdentityError

if TYPE_CHECKING:
    from federico.site.certificates import CertificateInfo, RequestInfo

pki_app = typer.Typer(help="Create keys and certificates for a federation.", no_args_is_help=True)

Authority = Annotated[
    Path, typer.Option("--ca", help="Folder of the authority: ca.pem and ca.key.")
]
Days = Annotated[int, typer.Option(help="Days for which the certificate is valid.", min=1, max=825)]


@pki_app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="Where ca.pem and ca.key are written.")] = Path(
        "ca"
    ),
    name: Annotated[str, typer.Option(help="Name of the authority.")] = "federation",
) -> None:
    """Create the federation's certificate authority."""
    from federico.site.certificates import create_authority

    authority = create_authority(folder, name)
    certificate = folder / "ca.pem"
    out.print(f"{certificate}: goes to every member. Fingerprint {authority.fingerprint}", **PLAIN)
    out.print(f"{folder / 'ca.key'}: stays here, and nowhere else", **PLAIN)


@pki_app.command("request")
def request(
    name: Annotated[str, typer.Argument(help="The peer's name, as in the federation's members.")],
    address: Annotated[
        list[str],
        typer.Option(
            metavar="HOST", help="Host name or IP address that others dial; can be repeated."
        ),
    ] = [],  # noqa: B006 (typer copies it)
    keys: Annotated[Path, typer.Option(help="Folder of the site's key and certificate.")] = Path(
        "keys"
    ),
) -> None:
    """At the site: create a key, which stays there, and a request to be signed."""
    from federico.site.certificates import create_request, read_request

    path = create_request(keys, name, address)
    _print_request(read_request(path))
    out.print(f"{keys / name}.key: stays on this site", **PLAIN)
    out.print(
        f"{path}: send it to whoever runs the authority, who signs it with `federico pki approve`",
        **PLAIN,
    )


@pki_app.command("approve")
def approve(
    request: Annotated[Path, typer.Argument(help="A site's request (.csr).")],
    ca: Authority = Path("ca"),
    days: Days = 90,
    yes: Annotated[bool, typer.Option("--yes", help="Sign without asking.")] = False,
) -> None:
    """At the authority: sign a request whose sender you know.

    Shows the name, the addresses and the fingerprint of the key first, and asks. The certificate is
    written beside the request.
    """
    from federico.site.certificates import approve_request, read_request

    asked = read_request(request)
    out.print(f"{request} asks for", **PLAIN)
    _print_request(asked)
    if not yes:
        _ask_before_signing(request)
    certificate = approve_request(request, ca, days)
    _print_signed(certificate)
    out.print(f"Send back {certificate} and {certificate.with_name('ca.pem')}", **PLAIN)


@pki_app.command("renew")
def renew(
    certificate: Annotated[Path, typer.Argument(help="The certificate to be replaced (.pem).")],
    ca: Authority = Path("ca"),
    days: Days = 90,
) -> None:
    """At the authority: extend a certificate; the site's key stays the same."""
    from federico.site.certificates import renew_certificate

    _print_signed(renew_certificate(certificate, ca, days))


@pki_app.command("show")
def show(
    certificates: Annotated[list[Path], typer.Argument(help="Certificates (.pem).")],
    json: Json = False,
) -> None:
    """Show the content of certificates."""
    from federico.site.certificates import read_certificate

    shown = {str(path): read_certificate(path) for path in certificates}
    if json:
        print_json({path: _as_json(certificate) for path, certificate in shown.items()})
        return
    for path, certificate in shown.items():
        out.print(path, style="bold", **PLAIN)
        out.print(_as_table(certificate))


def _as_json(certificate: "CertificateInfo") -> dict[str, object]:
    return asdict(certificate) | {
        "first": certificate.first.isoformat(),
        "last": certificate.last.isoformat(),
    }


def _as_table(certificate: "CertificateInfo") -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")  # a fingerprint that is cut cannot be compared
    table.add_row("  name", certificate.name)
    table.add_row("  addresses", ", ".join(certificate.addresses) or "none")
    table.add_row("  valid", f"{certificate.first:%F %H:%M} to {certificate.last:%F %H:%M} UTC")
    table.add_row("  issued by", certificate.issuer)
    table.add_row("  SHA-256", certificate.fingerprint)
    return table


def _print_request(asked: "RequestInfo") -> None:
    """What whoever signs should compare with what the site says, by another way than the file's."""
    addresses = ", ".join(asked.addresses)
    if not addresses:
        addresses = "none (it only dials out)"
    lines = (
        f"  name         {asked.name}",
        f"  addresses    {addresses}",
        f"  key SHA-256  {asked.key_fingerprint}",
    )
    for line in lines:
        out.print(line, **PLAIN)


def _ask_before_signing(request: Path) -> None:
    """Sign nothing that nobody has looked at."""
    if not sys.stdin.isatty():
        raise IdentityError(
            f"{request}: not signed, as there is nobody to ask; compare the fingerprint with the "
            "one that the site was shown, then add --yes"
        )
    if not typer.confirm("Is this what the site told you? Sign it?"):
        raise IdentityError(f"{request}: not signed")


def _print_signed(path: Path) -> None:
    from federico.site.certificates import read_certificate

    certificate = read_certificate(path)
    addresses = ", ".join(certificate.addresses) or "no address (it only dials out)"
    out.print(
        f"{path}: {certificate.name}, {addresses}, valid until {certificate.last:%F %H:%M} UTC",
        **PLAIN,
    )
