"""TLS on our ports: which mode, which certificates, and how a server tells TLS from plain by the first byte.

The settings are those of RocketMQ's tls.properties, under their names. Agrees with Java's TlsSystemConfig,
TlsHelper and NettyRemotingServer's handshake handler, with these exceptions, all on the safe side:

- no test mode: a server does not make up a certificate of its own;
- a client certificate that is required is also checked (Java takes any unless tls.server.authClient is true);
- a client that trusts the system's authorities, and not one file, checks the server's name too;
- a server that takes TLS only opens its own connections with TLS, unless the file says tls.enable=false (in Java they
  stay plain, and a broker with the file of its name server never registers).
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import field

from hanabi.errors import ConfigError

logger = logging.getLogger(__name__)

HANDSHAKE_BYTE = 0x16  # opens every TLS stream; as the first byte of a length it would be a frame of 352 MiB
_KNOWN_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and tls.server.need.client.auth is require",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not of an authority in tls.server.trustCertPath",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust our certificate (its tls.client.trustCertPath)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust our certificate (its tls.client.trustCertPath)",
}
CHECK_SECONDS = 1.0  # files are looked at no more often than this


class TlsMode(StrEnum):
    """The modes of a server's port."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"  # both, told apart by the first byte
    ENFORCING = "enforcing"


class ClientAuth(StrEnum):
    """The modes of client certificates."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of tls.properties. Files are PEM."""

    server_mode: TlsMode = field(default=TlsMode.PERMISSIVE, name="tls.server.mode")
    server_need_client_auth: ClientAuth = field(default=ClientAuth.NONE, name="tls.server.need.client.auth")
    server_key_path: str | None = field(default=None, name="tls.server.keyPath")
    server_key_password: str | None = field(default=None, name="tls.server.keyPassword")
    server_cert_path: str | None = field(default=None, name="tls.server.certPath")
    server_auth_client: bool = field(default=False, name="tls.server.authClient")
    server_trust_cert_path: str | None = field(default=None, name="tls.server.trustCertPath")
    client_enable: bool = field(default=False, name="tls.enable")
    client_key_path: str | None = field(default=None, name="tls.client.keyPath")
    client_key_password: str | None = field(default=None, name="tls.client.keyPassword")
    client_cert_path: str | None = field(default=None, name="tls.client.certPath")
    client_auth_server: bool = field(default=False, name="tls.client.authServer")
    client_trust_cert_path: str | None = field(default=None, name="tls.client.trustCertPath")


def tls_config(properties: Mapping[str, str]) -> TlsConfig:
    """Return the settings from *properties*, where other keys may stand too. An empty value is none, as in Java."""
    given = {name: value.strip() for name, value in properties.items() if value.strip()}
    for name in ("tls.server.mode", "tls.server.need.client.auth"):
        if name in given:
            given[name] = given[name].lower()
    if given.get("tls.server.mode") == TlsMode.ENFORCING:
        given.setdefault("tls.enable", "true")  # the peers of a server that refuses plain connections refuse them too
    try:
        return msgspec.convert(given, TlsConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"bad TLS setting: {error}") from error


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """Return a new context from the files as they are now. A ConfigError names the key that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if not config.server_cert_path or not config.server_key_path:
        raise ConfigError(f"tls.server.mode {config.server_mode} needs tls.server.certPath and tls.server.keyPath")
    _load_certificate(
        context, "tls.server", config.server_cert_path, config.server_key_path, config.server_key_password
    )
    if config.server_trust_cert_path:
        _load_trusted(context, "tls.server", config.server_trust_cert_path)
    if config.server_need_client_auth is ClientAuth.REQUIRE:
        if not config.server_trust_cert_path:
            raise ConfigError("tls.server.need.client.auth require needs tls.server.trustCertPath")
        context.verify_mode = ssl.CERT_REQUIRED
    elif config.server_need_client_auth is ClientAuth.OPTIONAL and config.server_trust_cert_path:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(config: TlsConfig) -> ssl.SSLContext | None:
    """Return the context for connections that we open; None where they are plain."""
    if not config.client_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Brokers are known by address, their certificates seldom name one: Java looks at the issuer only.
    context.check_hostname = config.client_auth_server and not config.client_trust_cert_path
    if not config.client_auth_server:
        context.verify_mode = ssl.CERT_NONE
    elif config.client_trust_cert_path:
        _load_trusted(context, "tls.client", config.client_trust_cert_path)
    else:
        context.load_default_certs()
    if config.client_cert_path:
        key_path = config.client_key_path or config.client_cert_path
        _load_certificate(context, "tls.client", config.client_cert_path, key_path, config.client_key_password)
    return context


def tls_reason(error: OSError) -> str | None:
    """Return why a connection with TLS could not be opened, where it is for TLS; None where it is not."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not trusted: {error.verify_message}. tls.client.trustCertPath"
            " (client_trust_cert_path) must have the authority that issued it"
        )
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed: {error.reason or error}"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError) or (error.errno is None and not str(error)):
        return "the TLS handshake was cut off: does the port speak TLS? Without tls.server.mode it is plain"
    return None


def handshake_reason(error: Exception) -> str:
    """Return why a server's handshake with a peer failed, in the words of the operator's files."""
    if isinstance(error, ssl.SSLError):
        return _KNOWN_REASONS.get(error.reason or "", f"the TLS handshake failed: {error.reason or error}")
    return str(error) or "the peer ended the TLS handshake: perhaps it does not trust our certificate"


def _load_certificate(context: ssl.SSLContext, side: str, certificate: str, key: str, password: str | None) -> None:
    try:
        context.load_cert_chain(certificate, key, lambda: password or "")  # without it OpenSSL asks the terminal
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise ConfigError(f"{side}.certPath {certificate} with {side}.keyPath {key}: {error}") from error


def _load_trusted(context: ssl.SSLContext, side: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{side}.trustCertPath {path}: {error}") from error


class ServerTls:
    """The server's context, rebuilt when its files change. Connections that are open keep the old one."""

    def __init__(self, config: TlsConfig, clock: Callable[[], float]) -> None:
        self.mode = config.server_mode
        self._config = config
        self._clock = clock
        self._stamp = self._files_stamp()
        self._checked = clock()
        self._context = server_context(config)

    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""
        now = self._clock()
        if now - self._checked >= CHECK_SECONDS:
            self._checked = now
            stamp = self._files_stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = server_context(self._config)
        except ConfigError as error:  # perhaps half written: when the files change again we try again
            logger.warning("changed TLS files cannot be used, the old ones stay: %s", error)
        else:
            logger.info("TLS files were read again: %s", self._config.server_cert_path)

    def _files_stamp(self) -> list[tuple[int, int, int] | None]:
        config = self._config
        return [
            _file_stamp(p) for p in (config.server_cert_path, config.server_key_path, config.server_trust_cert_path)
        ]


def _file_stamp(path: str | None) -> tuple[int, int, int] | None:
    """Return a value that changes when the file is replaced or rewritten; None where there is no file."""
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


async def first_byte(client: socket.socket, timeout_seconds: float) -> int | None:
    """Return the first byte of *client* without taking it. None if it closes first; TimeoutError if it stays silent."""
    loop = asyncio.get_running_loop()
    descriptor = client.fileno()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _set_once, readable)
    try:
        async with asyncio.timeout(timeout_seconds):
            await readable
    finally:
        loop.remove_reader(descriptor)
    peeked = client.recv(1, socket.MSG_PEEK)
    return peeked[0] if peeked else None


def _set_once(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
