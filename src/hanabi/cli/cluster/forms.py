"""Forms of a cluster: which servers there are, and the settings of each. Pure.

single-master               one name server, one master
several-masters             a master on each host
masters-and-slaves-async    a master and its slave on each two hosts
masters-and-slaves-sync     the same; a message is acknowledged when the slave has it
crossed                     two hosts, each with a master and the slave of the other, which acts as master
controller                  three hosts, one broker name: an elected master and two slaves in sync
one-host                    several masters on one host, in a container
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from hanabi.cli.cluster.places import Places
from hanabi.errors import ConfigError
from hanabi.remoting.address import format_address

NAMESRV_PORT: Final = 9_876
BROKER_PORT: Final = 10_911
BETWEEN_BROKERS: Final = 10  # ports of brokers on one host
CONTROLLER_PORT: Final = 19_876
CONTAINER_PORT: Final = 10_811
BROKERS_MAX: Final = 26  # broker-a to broker-z

Settings = dict[str, str]


class Form(StrEnum):
    """Names of the forms."""

    SINGLE = "single-master"
    SEVERAL = "several-masters"
    ASYNC_PAIRS = "masters-and-slaves-async"
    SYNC_PAIRS = "masters-and-slaves-sync"
    CROSSED = "crossed"
    CONTROLLER = "controller"
    ONE_HOST = "one-host"


class Kind(StrEnum):
    """Kinds of servers, as `hanabi serve` names them."""

    NAMESRV = "namesrv"
    CONTROLLER = "controller"
    BROKER = "broker"
    CONTAINER = "container"


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server: its process, or for a broker of a container its file."""

    kind: Kind
    name: str
    host: int
    address: str  # HOST:PORT
    file: str
    data: str
    settings: Settings
    options: tuple[str, ...] = ()
    members: tuple["Server", ...] = ()

    @property
    def command(self) -> list[str]:
        """Return the arguments of `hanabi`."""
        return ["serve", self.kind.value, "-c", self.file, "--home", self.data, *self.options]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a form is made of, beside its name."""

    hosts: int
    namesrvs: int = 2  # at most; with a controller one on each host
    brokers: int = 2  # of one-host
    etcd: str = ""  # URL of the controllers' state; empty: one controller with a file
    more: Mapping[str, str] = {}  # settings of every broker


def hosts_needed(form: Form, given: int) -> int:
    """Return the number of hosts of *form*; raise ConfigError if *given* is none that it can have."""
    exact = {Form.SINGLE: 1, Form.ONE_HOST: 1, Form.CROSSED: 2, Form.CONTROLLER: 3}
    if form in exact and given != exact[form]:
        raise ConfigError(f"{form.value} needs {_count(exact[form])}, not {given}: give --host so many times")
    if form is Form.SEVERAL and not 2 <= given <= BROKERS_MAX:
        raise ConfigError(f"{form.value} needs 2 to {BROKERS_MAX} hosts, not {given}: give --host so many times")
    if form in (Form.ASYNC_PAIRS, Form.SYNC_PAIRS) and (given % 2 or not 2 <= given <= 2 * BROKERS_MAX):
        raise ConfigError(f"{form.value} needs two hosts for each pair, not {given}: a master and its slave")
    return given


def usual_hosts(form: Form) -> int:
    """Return the number of hosts for trying a form out."""
    return {Form.SINGLE: 1, Form.ONE_HOST: 1, Form.CONTROLLER: 3, Form.ASYNC_PAIRS: 4, Form.SYNC_PAIRS: 4}.get(form, 2)


def _count(number: int) -> str:
    return "1 host" if number == 1 else f"{number} hosts"


def planned(form: Form, places: Places, asked: Asked) -> list[Server]:
    """Return the servers of a form, in the order of their start."""
    hosts_needed(form, asked.hosts)
    if not 1 <= asked.brokers <= BROKERS_MAX:
        raise ConfigError(f"--brokers must be 1 to {BROKERS_MAX}, not {asked.brokers}")
    return _Plan(places, asked).of(form)


class _Plan:
    def __init__(self, places: Places, asked: Asked) -> None:
        self._places, self._asked = places, asked

    def of(self, form: Form) -> list[Server]:
        makers: dict[Form, Callable[[list[Server]], list[Server]]] = {
            Form.SINGLE: self._masters,
            Form.SEVERAL: self._masters,
            Form.ASYNC_PAIRS: lambda namesrvs: self._pairs(namesrvs, "ASYNC_MASTER"),
            Form.SYNC_PAIRS: lambda namesrvs: self._pairs(namesrvs, "SYNC_MASTER"),
            Form.CROSSED: self._crossed,
            Form.CONTROLLER: self._controlled,
            Form.ONE_HOST: self._one_host,
        }
        acting = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"} if form is Form.CROSSED else {}
        wanted = self._asked.namesrvs
        count = self._asked.hosts if form is Form.CONTROLLER and wanted > 1 else min(wanted, self._asked.hosts)
        names = ["namesrv"] if count == 1 else [f"namesrv-{number + 1}" for number in range(count)]
        namesrvs = [self._server(Kind.NAMESRV, name, host, NAMESRV_PORT, acting) for host, name in enumerate(names)]
        return [*namesrvs, *makers[form](namesrvs)]

    def _masters(self, namesrvs: list[Server]) -> list[Server]:
        return [self._broker(namesrvs, _letter(host), 0, host, "ASYNC_MASTER") for host in range(self._asked.hosts)]

    def _pairs(self, namesrvs: list[Server], role: str) -> list[Server]:
        reads, made = {"slaveReadEnable": "true"}, []
        for pair in range(self._asked.hosts // 2):
            made.append(self._broker(namesrvs, _letter(pair), 0, 2 * pair, role, reads))
            made.append(self._broker(namesrvs, _letter(pair), 1, 2 * pair + 1, "SLAVE", reads))
        return made

    def _crossed(self, namesrvs: list[Server]) -> list[Server]:
        acting = {
            "enableSlaveActingMaster": "true",
            "enableRemoteEscape": "true",
            "slaveReadEnable": "true",
            "totalReplicas": "2",
        }
        containers = []
        for host in (0, 1):
            master = self._broker(namesrvs, _letter(host), 0, host, "ASYNC_MASTER", acting)
            slave = self._broker(namesrvs, _letter(1 - host), 1, host, "SLAVE", acting, number=1)
            containers.append(self._container(f"container-{host + 1}", host, (master, slave)))
        return containers

    def _controlled(self, namesrvs: list[Server]) -> list[Server]:
        hosts = range(self._asked.hosts) if self._asked.etcd else range(1)
        options = ("--state", self._asked.etcd) if self._asked.etcd else ()
        names = [f"controller-{host + 1}" for host in hosts] if self._asked.etcd else ["controller"]
        controllers = [
            self._server(Kind.CONTROLLER, name, host, CONTROLLER_PORT, {}, (*options, *self._advertised(name, host)))
            for host, name in zip(hosts, names, strict=True)
        ]
        safe = {
            "enableControllerMode": "true",
            "controllerAddr": ";".join(each.address for each in controllers),
            "allAckInSyncStateSet": "true",
            "minInSyncReplicas": "2",
            "inSyncReplicas": "2",
            "totalReplicas": "3",
            "slaveReadEnable": "true",
        }
        brokers = [
            self._named_broker(f"broker-a-{host + 1}", namesrvs, host, {"brokerName": "broker-a", **safe})
            for host in range(self._asked.hosts)
        ]
        return [*controllers, *brokers]

    def _advertised(self, name: str, host: int) -> tuple[str, ...]:
        return "--advertise", self._places.address(host, name)

    def _one_host(self, namesrvs: list[Server]) -> list[Server]:
        brokers = [
            self._broker(namesrvs, _letter(number), 0, 0, "ASYNC_MASTER", number=number)
            for number in range(self._asked.brokers)
        ]
        return [self._container("container", 0, tuple(brokers))]

    # ---- single servers ----------------------------------------------------------------------------------------------

    def _container(self, name: str, host: int, members: tuple[Server, ...]) -> Server:
        paths = ":".join(each.file for each in members)
        made = self._server(Kind.CONTAINER, name, host, CONTAINER_PORT, {"brokerConfigPaths": paths})
        return msgspec.structs.replace(made, members=members)

    def _broker(
        self,
        namesrvs: list[Server],
        letter: str,
        broker_id: int,
        host: int,
        role: str,
        more: Mapping[str, str] | None = None,
        *,
        number: int = 0,
    ) -> Server:
        """Return a broker whose role its file tells; *number* counts the brokers of its host."""
        name = f"broker-{letter}{'-s' if broker_id else ''}"
        own = {"brokerName": f"broker-{letter}", "brokerId": str(broker_id), "brokerRole": role, **(more or {})}
        return self._named_broker(name, namesrvs, host, own, number)

    def _named_broker(
        self, name: str, namesrvs: list[Server], host: int, own: Mapping[str, str], number: int = 0
    ) -> Server:
        settings = {
            "brokerClusterName": "DefaultCluster",
            **own,
            "flushDiskType": "ASYNC_FLUSH",
            "namesrvAddr": ";".join(each.address for each in namesrvs),
            "brokerIP1": self._places.address(host, name),
            "storePathRootDir": self._places.data(host, name),
            **self._asked.more,
        }
        return self._server(Kind.BROKER, name, host, BROKER_PORT + BETWEEN_BROKERS * number, settings)

    def _server(
        self, kind: Kind, name: str, host: int, usual: int, settings: Settings, options: tuple[str, ...] = ()
    ) -> Server:
        port = self._places.port(host, name, usual)
        return Server(
            kind=kind,
            name=name,
            host=host,
            address=format_address((self._places.address(host, name), port)),
            file=self._places.file(host, name),
            data=self._places.data(host, name),
            settings={"listenPort": str(port), **settings},
            options=options,
        )


def _letter(number: int) -> str:
    return chr(ord("a") + number)


def every_file(servers: list[Server]) -> list[Server]:
    """Return all servers that have a file, those of containers among them."""
    return [each for server in servers for each in (server, *server.members)]


def file_text(server: Server) -> str:
    """Return the configuration file of a server."""
    return "".join(f"{key}={value}\n" for key, value in server.settings.items())
