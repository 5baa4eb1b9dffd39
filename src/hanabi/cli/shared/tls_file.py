"""The file of `--tls-config`."""

from pathlib import Path
from typing import TYPE_CHECKING

from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.remoting.transport.tls import TlsConfig


def read_tls(path: Path) -> "TlsConfig":
    """RocketMQ's tls.properties."""
    from hanabi.remoting.transport.tls import tls_config
    from hanabi.wire.java_properties import decode_properties

    try:
        return tls_config(decode_properties(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"--tls-config {path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"--tls-config {path}: {error}") from error
