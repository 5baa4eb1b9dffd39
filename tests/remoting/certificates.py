"""Certificates for the tests: an authority, and what it signed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, in files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    certificate_path: Path
    key_path: Path

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


def issue(folder: Path, name: str, by: Issued | None = None, *, password: str | None = None) -> Issued:
    """Return a certificate for 127.0.0.1 under *name*, signed *by* an authority; by itself if there is none."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(by.key if by else key, hashes.SHA256())
    )
    encryption: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    issued = Issued(certificate, key, folder / f"{name}.pem", folder / f"{name}.key")
    issued.certificate_path.write_bytes(certificate.public_bytes(Encoding.PEM))
    issued.key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return issued
