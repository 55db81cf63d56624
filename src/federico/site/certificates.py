"""Who is who: a certificate authority for the federation, and for each site a key that stays there.

A site's certificate names its peer (common name) and the addresses that others dial (alternative
names). There is no revocation list: certificates are valid for a short time, and whoever is not
renewed, or is no longer in the members, is out.
"""

import hashlib
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
from federico.network.identity import Identity
from federico.network.roster import NAME
from federico.runs.atomic import disk_errors, publish_text

AUTHORITY_DAYS = 5 * 365
SITE_DAYS = 90
CLOCK_TOLERANCE = timedelta(minutes=5)
"""A certificate is valid from a little before now: the clocks of two sites never quite agree."""


@dataclass(frozen=True)
class CertificateInfo:
    """What a certificate says."""

    name: str
    """The peer, relay or authority that it was issued to."""
    addresses: tuple[str, ...]
    """Host names and IP addresses at which others may dial its holder."""
    first: datetime
    """When it becomes valid."""
    last: datetime
    """When it expires."""
    issuer: str
    fingerprint: str
    """SHA-256 of the certificate, to be compared over the telephone."""

    def check_valid(self, path: Path, now: datetime) -> None:
        """Refuse a certificate that is not valid yet or has expired; errors name the `path`."""
        if now < self.first:
            raise IdentityError(
                f"{path}: valid from {self.first:%F %T} UTC on, and the clock here says "
                f"{now:%F %T}: this clock is behind; set it right"
            )
        if now > self.last:
            raise IdentityError(
                f"{path}: expired on {self.last:%F %T} UTC; get a new one with `federico pki renew`"
            )


@dataclass(frozen=True)
class RequestInfo:
    """What a site asks the authority to sign."""

    name: str
    """The peer or relay that it says it is."""
    addresses: tuple[str, ...]
    """Host names and IP addresses at which others would dial it."""
    key_fingerprint: str
    """SHA-256 of its public key, which the site can read out over the telephone."""


def create_authority(folder: Path, name: str) -> CertificateInfo:
    """Make a certificate authority: ca.pem, which everybody gets, and ca.key, which nobody gets."""
    _check_name(name)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)

    key = _create_key(folder / "ca.key")
    public_key = key.public_key()
    subject = _common_name_of(name)
    builder = _certificate_builder(subject, subject, public_key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
    )
    certificate = builder.sign(key, hashes.SHA256())
    _write_pem(folder / "ca.pem", certificate.public_bytes(Encoding.PEM))
    return read_certificate(folder / "ca.pem")


def create_request(folder: Path, name: str, addresses: list[str]) -> Path:
    """Make a key <name>.key and the request <name>.csr that the authority is asked to sign."""
    _check_name(name)
    alternative_names = [_parse_address(address) for address in addresses]
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    key = _create_key(folder / f"{name}.key")
    builder = x509.CertificateSigningRequestBuilder()
    builder = builder.subject_name(_common_name_of(name))
    if alternative_names:
        extension = x509.SubjectAlternativeName(alternative_names)
        builder = builder.add_extension(extension, critical=False)
    request = builder.sign(key, hashes.SHA256())

    path = folder / f"{name}.csr"
    _write_pem(path, request.public_bytes(Encoding.PEM))
    return path


def read_request(path: Path) -> RequestInfo:
    """What a request asks for; nothing is signed."""
    request = _load_request(path)
    return RequestInfo(
        name=_read_common_name(request.subject, path),
        addresses=tuple(str(name.value) for name in _alternative_names(request)),
        key_fingerprint=hashlib.sha256(_key_bytes(request.public_key())).hexdigest(),
    )


def approve_request(path: Path, authority: Path, days: float = SITE_DAYS) -> Path:
    """Sign a request; <name>.pem and the authority's ca.pem appear beside it, to be sent back."""
    request = _load_request(path)
    name = _read_common_name(request.subject, path)
    certificate = path.with_name(f"{name}.pem")
    _issue(certificate, name, _alternative_names(request), request.public_key(), authority, days)
    return certificate


def _load_request(path: Path) -> x509.CertificateSigningRequest:
    """The request in a file, whose sender has shown to hold its key."""
    try:
        request = x509.load_pem_x509_csr(_read_bytes(path))
    except ValueError as error:
        raise IdentityError(
            f"{path}: not a signing request; `federico pki request` makes one"
        ) from error
    if not request.is_signature_valid:
        raise IdentityError(
            f"{path}: its signature does not match its key: it was changed on the way; "
            "ask for it again"
        )
    return request


def renew_certificate(path: Path, authority: Path, days: float = SITE_DAYS) -> Path:
    """Replace a certificate by one that is valid for longer; the site's key stays the same."""
    old = _load_certificate(path)
    _check_issuer(old, path, authority / "ca.pem")
    name = _read_common_name(old.subject, path)
    _issue(path, name, _alternative_names(old), old.public_key(), authority, days)
    return path


def read_certificate(path: Path) -> CertificateInfo:
    """What the certificate in a file says."""
    certificate = _load_certificate(path)
    addresses = [str(name.value) for name in _alternative_names(certificate)]
    return CertificateInfo(
        name=_read_common_name(certificate.subject, path),
        addresses=tuple(addresses),
        first=certificate.not_valid_before_utc,
        last=certificate.not_valid_after_utc,
        issuer=_read_common_name(certificate.issuer, path),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(":"),
    )


def check_certificate(identity: Identity, now: datetime | None = None) -> CertificateInfo:
    """Find all that can be wrong with a site's own key and certificate, without a network."""
    now = now or datetime.now(UTC)
    certificate = read_certificate(identity.certificate)
    _check_issuer(_load_certificate(identity.certificate), identity.certificate, identity.authority)
    if certificate.name != identity.name:
        raise IdentityError(
            f"{identity.certificate}: was issued to {certificate.name!r}, "
            f"the site file says name = {identity.name!r}"
        )
    certificate.check_valid(identity.certificate, now)
    read_certificate(identity.authority).check_valid(identity.authority, now)
    _check_key(identity)
    return certificate


def _issue(
    path: Path,
    name: str,
    alternative_names: list[x509.GeneralName],
    public_key: CertificatePublicKeyTypes,
    authority: Path,
    days: float,
) -> None:
    """Write a certificate that the authority has signed, and the authority's own beside it."""
    if path.name == "ca.pem":
        raise IdentityError(
            f"{path}: this is the name of an authority's own certificate; "
            "no member can be named 'ca'"
        )
    issuer = _load_certificate(authority / "ca.pem")
    issuer_key = _load_key(authority / "ca.key")

    builder = _certificate_builder(_common_name_of(name), issuer.subject, public_key, days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    # A peer is dialled and dials, so it is a server and a client.
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
    )
    if alternative_names:
        extension = x509.SubjectAlternativeName(alternative_names)
        builder = builder.add_extension(extension, critical=False)

    certificate = builder.sign(issuer_key, hashes.SHA256())
    _write_pem(path, certificate.public_bytes(Encoding.PEM))
    if path.parent.resolve() != authority.resolve():
        with disk_errors(path):
            shutil.copyfile(authority / "ca.pem", path.with_name("ca.pem"))


def _certificate_builder(
    subject: x509.Name, issuer: x509.Name, public_key: CertificatePublicKeyTypes, days: float
) -> x509.CertificateBuilder:
    """What certificates of sites and authorities have in common."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder()
    builder = builder.subject_name(subject)
    builder = builder.issuer_name(issuer)
    builder = builder.public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - CLOCK_TOLERANCE)
    return builder.not_valid_after(now + timedelta(days=days))


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """An authority signs certificates, and a site everything else."""
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


def _create_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Make a key that only its owner may read; no key is ever overwritten."""
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise IdentityError(
            f"{path}: there is a key already, and none is ever overwritten; move it away"
        ) from None
    except OSError as error:
        raise IdentityError(f"{path}: cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(_read_bytes(path), None)
    except (ValueError, TypeError) as error:
        raise IdentityError(f"{path}: not a key in PEM form without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path}: not an elliptic-curve key; make it with `federico pki`")
    return key


def _load_certificate(path: Path) -> x509.Certificate:
    if not path.exists():
        raise IdentityError(
            f"{path}: cannot be read: No such file or directory; the authority makes its own with "
            "`federico pki init`, and those of sites with `federico pki approve`"
        )
    try:
        return x509.load_pem_x509_certificate(_read_bytes(path))
    except ValueError as error:
        raise IdentityError(f"{path}: not a certificate in PEM form") from error


def _check_key(identity: Identity) -> None:
    """Refuse a key that belongs to another certificate, or that others can read."""
    public_key = _load_key(identity.key).public_key()
    certified = _load_certificate(identity.certificate).public_key()
    if _key_bytes(public_key) != _key_bytes(certified):
        raise IdentityError(
            f"{identity.key}: is not the key of this certificate; put the key of its request there"
        )
    readable_by_others = identity.key.stat().st_mode & 0o077
    if readable_by_others:
        raise IdentityError(
            f"{identity.key}: others on this machine can read the key; "
            f"run `chmod 600 {identity.key}`"
        )


def _key_bytes(public_key: CertificatePublicKeyTypes) -> bytes:
    return public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_issuer(certificate: x509.Certificate, path: Path, authority: Path) -> None:
    """Refuse a certificate that another authority has signed."""
    issuer = _load_certificate(authority)
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        raise IdentityError(
            f"{path}: was issued by another authority than {authority}; "
            "both must come from the same `federico pki approve`"
        ) from None


def _common_name_of(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _read_common_name(subject: x509.Name, path: Path) -> str:
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) == 1:
        name = str(names[0].value)
        if NAME.fullmatch(name):
            return name
    raise IdentityError(f"{path}: does not hold one usable name (common name)")


def _alternative_names(
    holder: x509.Certificate | x509.CertificateSigningRequest,
) -> list[x509.GeneralName]:
    """The addresses in a certificate or a request; empty for a site that only dials out."""
    try:
        extension = holder.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(extension.value)


def _parse_address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass  # then it is a host name
    if not NAME.fullmatch(text):
        raise IdentityError(
            f"--address {text!r}: write a host name or an IP address, without a port"
        )
    return x509.DNSName(text)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise IdentityError(
            f"{name!r}: a name has 1 to 64 letters, digits, dots, dashes or underscores"
        )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise IdentityError(f"{path}: cannot be read: {error.strerror}") from error


def _write_pem(path: Path, pem: bytes) -> None:
    publish_text(path, pem.decode())
