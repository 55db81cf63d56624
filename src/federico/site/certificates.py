"""Who is who: a certificate authority for the federation, and per site a key that never leaves it.

A leaf names its peer (common name) and the addresses others dial (alternative names). There is no revocation list:
lives are short, and who is not renewed, or not in the members, is out.
"""

import ipaddress
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from federico.errors import IdentityError
from federico.network.roster import NAME
from federico.runs.atomic import disk_errors, publish_text

CA_DAYS = 5 * 365
LEAF_DAYS = 90
SKEW = timedelta(minutes=5)
"""A certificate is valid from a little before now on: clocks of two sites are never quite the same."""


@dataclass(frozen=True)
class CertificateInfo:
    """What a certificate says."""

    name: str
    addresses: tuple[str, ...]
    first: datetime
    last: datetime
    issuer: str
    fingerprint: str
    """SHA-256 of the certificate, to be compared over the telephone."""

    def refuse_unless_valid(self, path: Path, now: datetime) -> None:
        """Outside its life, say on which side, and what to do."""
        if now < self.first:
            raise IdentityError(
                f"{path}: valid from {self.first:%F %T} UTC on, and the clock here says {now:%F %T}: "
                "this clock is behind; set it right"
            )
        if now > self.last:
            raise IdentityError(
                f"{path}: expired on {self.last:%F %T} UTC; get a new one with `federico pki renew`"
            )


def init(folder: Path, name: str) -> CertificateInfo:
    """A new certificate authority: ca.pem, which everybody gets, and ca.key, which nobody gets."""
    _refuse_name(name)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    key = _new_key(folder / "ca.key")
    subject = _named(name)
    authority = (
        _builder(subject, subject, key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _publish(folder / "ca.pem", authority.public_bytes(Encoding.PEM))
    return show(folder / "ca.pem")


def request(folder: Path, name: str, addresses: list[str]) -> Path:
    """A new key <name>.key and beside it the request <name>.csr that the authority is asked to sign."""
    _refuse_name(name)
    alternatives = [_address(address) for address in addresses]
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = _new_key(folder / f"{name}.key")
    wish = x509.CertificateSigningRequestBuilder().subject_name(_named(name))
    if alternatives:
        wish = wish.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    _publish(folder / f"{name}.csr", wish.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return folder / f"{name}.csr"


def approve(wish: Path, authority: Path, days: int = LEAF_DAYS) -> Path:
    """Sign a request: <name>.pem and the authority's ca.pem appear beside it, to be sent back together."""
    try:
        asked = x509.load_pem_x509_csr(_read(wish))
    except ValueError as error:
        raise IdentityError(
            f"{wish}: not a signing request; `federico pki request` makes one"
        ) from error
    if not asked.is_signature_valid:
        raise IdentityError(
            f"{wish}: its signature does not fit its key; it was changed on the way, ask for it again"
        )
    name = _common_name(asked.subject, wish)
    return _issue(
        wish.with_name(f"{name}.pem"),
        name,
        _alternatives(asked),
        asked.public_key(),
        authority,
        days,
    )


def renew(certificate: Path, authority: Path, days: int = LEAF_DAYS) -> Path:
    """The same certificate with a new life, in place of the old one; the site's key stays what it is."""
    old = load(certificate)
    _refuse_issuer(old, load(authority / "ca.pem"), certificate, authority / "ca.pem")
    name = _common_name(old.subject, certificate)
    return _issue(certificate, name, _alternatives(old), old.public_key(), authority, days)


def show(path: Path) -> CertificateInfo:
    """What a certificate says."""
    return identity_of(load(path), path)


def identity_of(certificate: x509.Certificate, path: Path | str) -> CertificateInfo:
    """What a certificate says; `path` is what errors name."""
    return CertificateInfo(
        _common_name(certificate.subject, path),
        tuple(str(entry.value) for entry in _alternatives(certificate)),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        _common_name(certificate.issuer, path),
        certificate.fingerprint(hashes.SHA256()).hex(":"),
    )


def check_own(
    certificate: Path, key: Path, authority: Path, name: str, now: datetime | None = None
) -> CertificateInfo:
    """All that can be wrong with a site's own papers, found without a network."""
    mine = show(certificate)
    _refuse_issuer(load(certificate), load(authority), certificate, authority)
    if mine.name != name:
        raise IdentityError(
            f"{certificate}: was issued to {mine.name!r}, the site file says name = {name!r}"
        )
    for path in (certificate, authority):
        show(path).refuse_unless_valid(path, now or datetime.now(UTC))
    _refuse_key(load(certificate), key)
    return mine


def load(path: Path) -> x509.Certificate:
    """A certificate from a file."""
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise IdentityError(f"{path}: not a certificate in PEM form") from error


def _issue(
    target: Path,
    name: str,
    alternatives: list[x509.GeneralName],
    public: CertificatePublicKeyTypes,
    authority: Path,
    days: int,
) -> Path:
    if target.name == "ca.pem":
        raise IdentityError(
            f"{target}: is what an authority's own certificate is called; no member can be named 'ca'"
        )
    issuer, key = load(authority / "ca.pem"), _load_key(authority / "ca.key")
    leaf = (
        _builder(_named(name), issuer.subject, public, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    if alternatives:
        leaf = leaf.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    _publish(target, leaf.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    if target.parent.resolve() != authority.resolve():
        with disk_errors(target):
            shutil.copyfile(authority / "ca.pem", target.with_name("ca.pem"))
    return target


def _builder(
    subject: x509.Name, issuer: x509.Name, public: CertificatePublicKeyTypes, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Written for its owner's eyes only, and never over another."""
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise IdentityError(
            f"{path}: there is a key already, and none is ever overwritten; move it away"
        ) from None
    except OSError as error:
        raise IdentityError(f"{path}: cannot be written: {error.strerror}") from error
    with os.fdopen(handle, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(_read(path), None)
    except (ValueError, TypeError) as error:
        raise IdentityError(f"{path}: not a key without a password in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path}: not an elliptic-curve key; make it with `federico pki`")
    return key


def _refuse_key(certificate: x509.Certificate, path: Path) -> None:
    public = _load_key(path).public_key()
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if public.public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise IdentityError(
            f"{path}: is not the key of this certificate; put the key of its request there"
        )
    if path.stat().st_mode & 0o077:
        raise IdentityError(
            f"{path}: others on this machine can read the key; run `chmod 600 {path}`"
        )


def _refuse_issuer(
    leaf: x509.Certificate, authority: x509.Certificate, path: Path, authority_path: Path
) -> None:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise IdentityError(
            f"{path}: was issued by another authority than {authority_path}; "
            "both must come from the same `federico pki approve`"
        ) from None


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _common_name(subject: x509.Name, path: Path | str) -> str:
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not NAME.fullmatch(str(names[0].value)):
        raise IdentityError(f"{path}: does not hold one usable name (common name)")
    return str(names[0].value)


def _alternatives(
    holder: x509.Certificate | x509.CertificateSigningRequest,
) -> list[x509.GeneralName]:
    try:
        return list(holder.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    if not NAME.fullmatch(text):
        raise IdentityError(
            f"--address {text!r}: write a host name or an IP address, without a port"
        )
    return x509.DNSName(text)


def _refuse_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise IdentityError(
            f"{name!r}: a name has 1 to 64 letters, digits, dots, dashes or underscores"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise IdentityError(f"{path}: cannot be read: {error.strerror}") from error


def _publish(path: Path, content: bytes) -> None:
    publish_text(path, content.decode())
