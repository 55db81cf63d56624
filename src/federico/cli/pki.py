"""`federico pki`."""

from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from federico.cli.console import PLAIN, out, print_json
from federico.site import certificates as pki


def init(folder: Path, name: str) -> None:
    """Make the authority and say who gets what."""
    identity = pki.init(folder, name)
    out.print(
        f"{folder / 'ca.pem'}: goes to every member. Fingerprint {identity.fingerprint}", **PLAIN
    )
    out.print(f"{folder / 'ca.key'}: stays here, and nowhere else", **PLAIN)


def request(name: str, addresses: list[str], folder: Path) -> None:
    """Make key and request."""
    wish = pki.request(folder, name, addresses)
    out.print(f"{folder / name}.key: stays on this site", **PLAIN)
    out.print(
        f"{wish}: send it to whoever runs the authority, who signs it with `federico pki approve`",
        **PLAIN,
    )


def approve(wish: Path, authority: Path, days: int) -> None:
    """Sign, and say what to send back."""
    certificate = pki.approve(wish, authority, days)
    _say_signed(certificate)
    out.print(f"Send back {certificate} and {certificate.with_name('ca.pem')}", **PLAIN)


def renew(certificate: Path, authority: Path, days: int) -> None:
    """Sign again."""
    _say_signed(pki.renew(certificate, authority, days))


def show(certificates: list[Path], *, as_json: bool) -> None:
    """A line per certificate."""
    identities = {str(path): pki.show(path) for path in certificates}
    if as_json:
        print_json(
            {
                path: {
                    **asdict(identity),
                    "first": identity.first.isoformat(),
                    "last": identity.last.isoformat(),
                }
                for path, identity in identities.items()
            }
        )
        return
    for path, identity in identities.items():
        out.print(path, style="bold", **PLAIN)
        out.print(_facts(identity))


def _facts(identity: pki.CertificateInfo) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")  # a fingerprint that is cut cannot be compared
    for name, value in {
        "  name": identity.name,
        "  addresses": ", ".join(identity.addresses) or "none",
        "  valid": f"{identity.first:%F %H:%M} to {identity.last:%F %H:%M} UTC",
        "  issued by": identity.issuer,
        "  SHA-256": identity.fingerprint,
    }.items():
        table.add_row(name, value)
    return table


def _say_signed(certificate: Path) -> None:
    identity = pki.show(certificate)
    addresses = ", ".join(identity.addresses) or "no address (it only dials out)"
    out.print(
        f"{certificate}: {identity.name}, {addresses}, valid until {identity.last:%F %H:%M} UTC",
        **PLAIN,
    )
