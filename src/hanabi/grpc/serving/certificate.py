"""A certificate of our own for TLS without configuration: clients that demand TLS do not check it by default."""

import datetime as dt
import ipaddress
import logging
import os
import ssl
import tempfile
from pathlib import Path
from typing import Final

ALPN: Final = "h2"
_DAYS: Final = 3650

logger = logging.getLogger(__name__)


def own_context() -> ssl.SSLContext | None:
    """Return a context with a new self-signed certificate; None if the package `cryptography` is not installed.

    The key is never kept: it is in a file that only this user can read, for the moment in which it is loaded.
    """
    try:
        pem = _certificate()
    except ImportError:
        logger.warning(
            "gRPC without TLS: install hanabi-mq[grpc] for a certificate made at the start, or give --tls-config;"
            " Java, Go, C# and C++ clients demand TLS by default"
        )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    number, name = tempfile.mkstemp(suffix=".pem")  # readable by its owner alone
    try:
        with os.fdopen(number, "wb") as file:
            file.write(pem)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink(missing_ok=True)
    context.set_alpn_protocols([ALPN])
    return context


def _certificate() -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hanabi")])
    now = dt.datetime.now(dt.UTC)
    loopback = ipaddress.ip_address("127.0.0.1")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(loopback)]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
