"""A self-signed certificate for 127.0.0.1, good for an hour, and the tls.properties of a server that uses it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def tls_properties(folder: Path, mode: str) -> Path:
    """Return a tls.properties in *folder* with a new certificate; *mode* is permissive or enforcing."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    properties = folder / "tls.properties"
    properties.write_text(
        f"tls.server.mode={mode}\n"
        f"tls.server.certPath={folder / 'server.pem'}\n"
        f"tls.server.keyPath={folder / 'server.key'}\n"
    )
    return properties
