"""Access to etcd from settings: certificates and a password, read from files and the environment."""

import os
import ssl
from pathlib import Path
from typing import Final

from hanabi.controller.storage.etcd_client import TLS_SCHEME, EtcdAccess
from hanabi.errors import ConfigError

PASSWORD_VARIABLE: Final = "HANABI_ETCD_PASSWORD"  # noqa: S105 - the name of a variable


def etcd_access(
    url: str, *, ca_cert: str = "", cert: str = "", key: str = "", user: str = "", password_file: str = ""
) -> EtcdAccess:
    """Return how the etcd of *url* is reached. Raise ConfigError if settings contradict each other or a file is
    wrong."""
    uses_tls = url.startswith(TLS_SCHEME)
    if not uses_tls and (ca_cert or cert or key):
        raise ConfigError(
            "etcdCaCert, etcdCert and etcdKey need --state etcds://...: with etcd:// nothing is encrypted"
        )
    if bool(cert) != bool(key):
        raise ConfigError("etcdCert and etcdKey go together: a client certificate and its key")
    password = _password(password_file)
    if user and not password:
        raise ConfigError(f"etcdUser needs a password: set etcdPasswordFile, or {PASSWORD_VARIABLE} in the environment")
    return EtcdAccess(tls=_tls(ca_cert, cert, key) if uses_tls else None, user=user, password=password)


def _password(file: str) -> str:
    if not file:
        return os.environ.get(PASSWORD_VARIABLE, "")
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"etcdPasswordFile {file}: {getattr(error, 'strerror', None) or error}") from error


def _tls(ca_cert: str, cert: str, key: str) -> ssl.SSLContext:
    """Return a context that checks etcd's certificate; without etcdCaCert by the authorities of this machine."""
    try:
        context = ssl.create_default_context(cafile=ca_cert or None)
        if cert:
            context.load_cert_chain(cert, key)
    except OSError as error:
        files = ", ".join(file for file in (ca_cert, cert, key) if file)
        raise ConfigError(f"certificates of etcd ({files}): {error.strerror or error}") from error
    return context
