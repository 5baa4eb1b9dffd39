"""Settings of a client for reaching its cluster: one frozen value, checked once.

Agrees with Java's ClientConfig in meaning and defaults. Independent of sockets and loops. Settings of producers or
consumers only are in their own configurations.
"""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from hanabi.client.local_address import local_address
from hanabi.client.option_types import check_types
from hanabi.errors import ConfigError
from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.tls import TlsConfig

__all__ = ["ClientConfig", "Credentials", "TlsConfig", "client_config"]

DEFAULT_INSTANCE: Final = "DEFAULT"
NAMESRV_VARIABLE: Final = "NAMESRV_ADDR"  # as Apache's clients


class Credentials(msgspec.Struct, frozen=True):
    """Identity of a client where brokers check it: an access key, its secret, and a token where one was issued.

    Only the access key is ever shown or sent; of the secret only signatures leave this process.
    """

    access_key: str
    secret_key: str
    token: str | None = None

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ConfigError("credentials need both an access key and a secret key")

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, secret_key=...)"


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one client. Clients of one event loop with the same settings share their connections.

    `namesrv` is "host:port", several separated by semicolons, or a sequence; it defaults to the environment variable
    NAMESRV_ADDR. `client_id` is for programs that need the same id after a restart, such as a broadcasting consumer in
    a container whose address changes; it must be unique in the cluster. `address_map` translates addresses of brokers
    that cannot be reached from here: {"10.0.0.5:10911": "broker.example:30911"}, or by host alone.
    """

    namesrv: str | Sequence[str] = ""
    client_id: str | None = None
    instance: str = DEFAULT_INSTANCE
    unit: str = ""
    namespace: str = ""
    access: Credentials | None = None
    tls: TlsConfig | None = None
    address_map: Mapping[str, str] = msgspec.field(default_factory=dict)
    request_timeout_s: float = 3.0
    route_refresh_s: float = 30.0
    heartbeat_s: float = 30.0
    persist_offsets_s: float = 5.0
    rebalance_s: float = 20.0

    def __post_init__(self) -> None:
        check_types(self)
        for address in self.namesrv_addresses:
            _check_address("namesrv", address)
        for known, used in self.address_map.items():
            if ":" in known:
                _check_address("address_map", known)
                _check_address("address_map", used)
        for name in ("request_timeout_s", "route_refresh_s", "heartbeat_s", "persist_offsets_s", "rebalance_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)!r}")
        if self.client_id is not None and not self.client_id.strip():
            raise ConfigError("client_id must not be empty; leave it out and one is made")

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """Return the name servers, each once."""
        given = self.namesrv or os.environ.get(NAMESRV_VARIABLE, "")
        texts = given.replace(",", ";").split(";") if isinstance(given, str) else given
        addresses = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
        if not addresses:
            raise ConfigError(f'no name server given: set namesrv="host:port" or the variable {NAMESRV_VARIABLE}')
        return addresses

    def mapped(self, address: str) -> str:
        """Return the address to connect to for a broker registered with *address*."""
        if not self.address_map:
            return address
        if (used := self.address_map.get(address)) is not None:
            return used
        host, _, port = address.rpartition(":")
        used = self.address_map.get(host.strip("[]"))
        if used is None:
            return address
        return f"[{used}]:{port}" if ":" in used and not used.startswith("[") else f"{used}:{port}"

    def make_client_id(self, process_id: int, now_ns: int) -> str:
        """Return the id given, or one as Apache's clients make it: ip@instance[@unit], unique for the default
        instance.
        """
        if self.client_id is not None:
            return self.client_id
        instance = f"{process_id}#{now_ns}" if self.instance == DEFAULT_INSTANCE else self.instance
        return "@".join((local_address(), instance, *([self.unit] if self.unit else [])))

    @property
    def offsets_id(self) -> str:
        """Return the client id under which a broadcasting consumer keeps its offsets: the same after a restart, as
        Apache's clients keep the instance's name for broadcasting.
        """
        if self.client_id is not None:
            return self.client_id
        return "@".join((local_address(), self.instance, *([self.unit] if self.unit else [])))

    @property
    def shares_offsets_id(self) -> bool:
        """Return True if other clients on this machine have the same `offsets_id`, because none has an instance
        name.
        """
        return self.client_id is None and self.instance == DEFAULT_INSTANCE

    @property
    def identity(self) -> tuple[object, ...]:
        """Return a key that is equal for clients that may share connections."""
        values = msgspec.structs.asdict(self)
        values["namesrv"] = frozenset(self.namesrv_addresses)
        values["address_map"] = tuple(sorted(self.address_map.items()))
        return tuple(values.values())


def client_config(
    config: ClientConfig | None, options: Mapping[str, Any], others_known: Sequence[str] = ()
) -> ClientConfig:
    """Return *config* updated with *options*, or a new one from *options*. Raise ConfigError for an unknown option.

    *others_known* are further options of the caller, which it has taken already; they are used only in the error.
    """
    known = ClientConfig.__struct_fields__
    for name in options:
        if name not in known:
            all_known = (*known, *others_known)
            near = get_close_matches(name, all_known, n=1)
            hint = f": did you mean {near[0]}?" if near else f"; there are {', '.join(all_known)}"
            raise ConfigError(f"unknown option {name!r}{hint}")
    given = {name: value for name, value in options.items() if value is not None}
    return ClientConfig(**given) if config is None else msgspec.structs.replace(config, **given)


def _check_address(setting: str, address: str) -> None:
    try:
        parse_address(address)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from error
