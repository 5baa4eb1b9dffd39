"""The running dashboard: its parts, and a web server on this event loop."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn

from hanabi.admin import Admin
from hanabi.client.config import ClientConfig
from hanabi.clock import monotonic_ms, wall_ms
from hanabi.dashboard.alerts.config import read_config
from hanabi.dashboard.alerts.watch import Watch
from hanabi.dashboard.app import application
from hanabi.dashboard.bodies.book import FormBook
from hanabi.dashboard.cluster.accounts import Accounts
from hanabi.dashboard.cluster.collector import Collector
from hanabi.dashboard.cluster.view import ClusterView
from hanabi.dashboard.config import DashboardConfig
from hanabi.dashboard.history.ring import Ring
from hanabi.dashboard.history.sampler import Sampler
from hanabi.dashboard.jobs.jobs import Jobs
from hanabi.dashboard.parts import Parts
from hanabi.dashboard.render.pages import Pages
from hanabi.dashboard.security.audit import Audit
from hanabi.dashboard.security.sessions import Sessions
from hanabi.dashboard.security.throttle import Throttle
from hanabi.dashboard.security.users import FIRST_USER, Users, first_administrator
from hanabi.errors import ConfigError
from hanabi.remoting.address import format_address

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 500
HEADER_BYTES_MAX: Final = 32 << 10
STOP_SECONDS: Final = 2


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: our caller has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def opened(
    config: DashboardConfig, client: ClientConfig, *, now_ms: Callable[[], int] = wall_ms
) -> AsyncIterator[tuple[Parts, str | None]]:
    """Open the parts of a dashboard; yield them and the first administrator's password, if it was made now."""
    try:
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(f"dashboard home {config.home} cannot be made: {error.strerror or error}") from error
    alerts = read_config(config.alerts_file)
    users = Users(config.home / "users.json", config.scrypt_log_n)
    password = await first_administrator(users, config.password_file)

    def now_s() -> float:
        return monotonic_ms() / 1000

    async with Admin(client) as admin:
        collector = Collector(now_ms, config.page_seconds)
        cluster = ClusterView(admin, collector, now_ms)
        sessions = Sessions(now_s, config.session_idle_s, config.session_whole_s)
        accounts = Accounts(client, now_ms, config.page_seconds, collector.gate, sessions.end_all_of)
        ring = Ring(config.home / "history.db")
        await ring.open()
        watch = Watch(alerts)
        sampler = Sampler(cluster, ring, now_ms, watch.on_round)
        parts = Parts(
            config=config,
            cluster=cluster,
            accounts=accounts,
            pages=Pages(),
            forms=FormBook(config.home / "forms.json"),
            users=users,
            sessions=sessions,
            throttle=Throttle(now_s),
            audit=Audit(config.home / "audit.jsonl", now_ms),
            jobs=Jobs(now_ms),
            ring=ring,
            sampler=sampler,
            watch=watch,
            client=client,
            live=set(),
            now_ms=now_ms,
        )
        try:
            yield parts, password
        finally:
            await parts.jobs.close()
            await accounts.close()
            await collector.close()
            await ring.close()


@asynccontextmanager
async def running(config: DashboardConfig, client: ClientConfig) -> AsyncIterator[list[str]]:
    """Run a dashboard; yield the lines to announce it with."""
    async with (
        opened(config, client) as (parts, password),
        _watching(parts),
        _listening(config, parts) as address,
    ):
        scheme = "https" if config.certificate else "http"
        lines = [f"ready dashboard {scheme}://{format_address(address)}/"]
        if password is not None:
            lines.append(f"dashboard user {FIRST_USER} has the password {password} (shown once; change it at /users)")
        yield lines


@asynccontextmanager
async def _watching(parts: Parts) -> AsyncIterator[None]:
    """Sample the cluster, and post alerts."""
    tasks = [asyncio.create_task(parts.sampler.run()), asyncio.create_task(parts.watch.poster.run())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _listening(config: DashboardConfig, parts: Parts) -> AsyncIterator[tuple[str, int]]:
    with _socket(config.host, config.port) as listener:
        server = _Server(_settings(config, parts))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[:2]
        finally:
            server.should_exit = True
            await serving


def _settings(config: DashboardConfig, parts: Parts) -> uvicorn.Config:
    settings = uvicorn.Config(
        application(parts),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=config.certificate,
        ssl_keyfile=config.key,
    )
    try:
        settings.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--certificate {config.certificate}: {error}") from error
    return settings


def _socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(128)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {format_address((host, port))}: {reason}") from error
    return listener
