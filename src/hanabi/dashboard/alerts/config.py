"""The file of alerts: limits, and the webhook. It is the only place where the address of the webhook comes from."""

import ipaddress
import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hanabi.dashboard.alerts.rules import Limits
from hanabi.errors import ConfigError

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BYTES_MAX: Final = 1 << 20
FORBIDDEN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class Webhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where changes of alerts are posted. `allow` opens networks that are not public."""

    url: str
    headers: dict[str, str] = {}
    allow: list[str] = []
    seconds: float = 5.0

    @property
    def shown(self) -> str:
        """Return the URL without what may be a secret: user, path and query."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}/…"

    @property
    def networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        return [ipaddress.ip_network(each) for each in self.allow]


class AlertConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits and webhook."""

    limits: Limits = msgspec.field(default_factory=Limits)
    webhook: Webhook | None = None


def read_config(path: Path | None) -> AlertConfig:
    """Read the file of --alerts; without one, the limits are the defaults and nothing is posted."""
    if path is None:
        return AlertConfig()
    try:
        text = path.read_bytes()
        if len(text) > _BYTES_MAX:
            raise ConfigError(f"--alerts {path}: is larger than {_BYTES_MAX} bytes")
        found = msgspec.yaml.decode(text, type=AlertConfig | None) or AlertConfig()
    except OSError as error:
        raise ConfigError(f"--alerts {path} cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"--alerts {path}: {' '.join(str(error).split())}") from error
    return msgspec.structs.replace(found, webhook=_checked(found.webhook, path)) if found.webhook else found


def _checked(hook: Webhook, path: Path) -> Webhook:
    hook = msgspec.structs.replace(
        hook,
        url=_filled(hook.url, path),
        headers={name: _filled(value, path) for name, value in hook.headers.items()},
    )
    try:
        parts = urlsplit(hook.url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"--alerts {path}: webhook.url must be http://HOST/... or https://HOST/...")
    if not 0 < hook.seconds <= 60:
        raise ConfigError(f"--alerts {path}: webhook.seconds must be over 0 and at most 60")
    for name, value in hook.headers.items():
        if not re.fullmatch(r"[A-Za-z0-9-]+", name) or name.lower() in FORBIDDEN_HEADERS or not value.isprintable():
            raise ConfigError(f"--alerts {path}: webhook.headers: {name!r} cannot be sent")
    try:
        _ = hook.networks
    except ValueError as error:
        raise ConfigError(f"--alerts {path}: webhook.allow: {error}") from error
    return hook


def _filled(text: str, path: Path) -> str:
    """Return *text* with ${NAME} replaced by the environment's value, so that secrets need not be in the file."""

    def value(match: re.Match[str]) -> str:
        if (found := os.environ.get(match[1])) is None:
            raise ConfigError(f"--alerts {path}: there is no environment variable {match[1]}")
        return found

    return _VARIABLE.sub(value, text)
