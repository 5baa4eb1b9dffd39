"""Settings of the dashboard."""

from pathlib import Path
from typing import Final

import msgspec

DEFAULT_HOME: Final = "hanabi-dashboard"
SESSION_IDLE_S: Final = 30 * 60
SESSION_WHOLE_S: Final = 12 * 60 * 60
FORM_BYTES_MAX: Final = 5 << 20  # a body of 4 MiB, the largest that brokers take by default, and its encoding


class DashboardConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the dashboard. Addresses of brokers come from the name servers, and from nowhere else."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 8080
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()  # names in the Host header, besides localhost and addresses
    trusted_proxies: tuple[str, ...] = ()  # addresses whose X-Forwarded-For and X-Forwarded-Proto count
    password_file: Path | None = None  # password of the first administrator
    certificate: Path | None = None
    key: Path | None = None
    session_idle_s: float = SESSION_IDLE_S
    session_whole_s: float = SESSION_WHOLE_S
    page_seconds: float = 3.0  # a page waits so long for brokers, and then shows what it has
    broker_login: bool = False  # accounts of brokers may log in
    pipelines: Path | None = None  # folder of reports of pipelines
    alerts_file: Path | None = None
    scrypt_log_n: int = 15
