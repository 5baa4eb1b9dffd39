"""One broker with a name server of ours, twice: once with Apache's broker and once with ours, and guests on both.

The name server is ours on both sides, so that whatever differs comes from the broker.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hanabi.wire.codes import RequestCode, ResponseCode
from tests.interop.apache import SMALL_FILES, ApacheBroker, java, java_environment
from tests.interop.jars import ADMIN_4, SERVERS_4, driver_classpath
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.probe import ask
from tests.interop.processes import ServerProcess

CLUSTER = "InteropCluster"
BROKER = "broker-x"
ONLINE_GROUP = "interop_online"
PRODUCER_GROUP = "interop_producers"
GUEST_TOPIC = "Guests"
SETTINGS = {"traceTopicEnable": "true", "enablePropertyFilter": "true", "transactionCheckInterval": "3600000"}


class BrokerSite:
    """A name server, a broker, and guests: a JVM with a producer, a consumer and the endless commands of mqadmin."""

    def __init__(self, label: str, namesrv: OurNameServer, broker: ApacheBroker | OurBroker, home: Path) -> None:
        self.label, self.namesrv, self.broker, self.home = label, namesrv, broker, home
        self.instance = f"guest-of-{label}"
        self.guests: ServerProcess | None = None

    def invite(self) -> ServerProcess:
        """Let the guests come."""
        arguments = (self.namesrv.address, CLUSTER, self.instance, ONLINE_GROUP, PRODUCER_GROUP, GUEST_TOPIC)
        command = java(self.home / "guests", driver_classpath(ADMIN_4), "SiteGuests", *arguments)
        log = self.home / "guests" / "console.log"
        self.guests = ServerProcess(f"the guests of {self.label}", command, log, java_environment())
        return self.guests

    @property
    def is_monitored(self) -> bool:
        """Return whether the consumer of startMonitoring is there."""
        header = {"consumerGroup": "__MONITOR_CONSUMER"}
        return ask(self.broker.address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header).code == ResponseCode.SUCCESS

    @property
    def has_committed(self) -> bool:
        """Return whether the consumer's offsets are stored. Apache's broker loses one of two first offsets that
        arrive at the same moment (ConsumerOffsetManager.commitOffset); the client's next commit, after five
        seconds, brings it."""
        header = {"consumerGroup": ONLINE_GROUP, "topic": GUEST_TOPIC}
        answers = [
            ask(self.broker.address, RequestCode.QUERY_CONSUMER_OFFSET, {**header, "queueId": queue})
            for queue in ("0", "1")
        ]
        return all(answer.fields().get("offset") == "1" for answer in answers)  # a lost one is answered with 0

    @property
    def own_names(self) -> dict[str, str]:
        """Return what is this site's alone in the output of a command, and the word that stands for it on every
        site."""
        return {
            str(self.broker.home): "BROKER_HOME",
            str(self.home): "SITE_HOME",
            self.namesrv.address: "NAMESRV",
            self.broker.address: "BROKER",
            self.instance: "INSTANCE",
        }


@contextmanager
def broker_sites(home: Path) -> Iterator[tuple[BrokerSite, BrokerSite]]:
    """Apache's site and ours, ready and with guests; every process is ended on the way out, whatever happened."""
    with ExitStack() as stack:
        name_servers = [OurNameServer(home / label / "namesrv") for label in ("apache", "ours")]
        for name_server in name_servers:
            stack.callback(name_server.process.kill)
        for name_server in name_servers:
            name_server.wait_ready()
        apache = ApacheBroker(
            home / "apache" / BROKER,
            SERVERS_4,
            name=BROKER,
            cluster=CLUSTER,
            namesrv=name_servers[0].address,
            settings=SETTINGS,
        )
        stack.callback(apache.process.kill)
        ours = OurBroker(
            home / "ours" / BROKER,
            name=BROKER,
            namesrv=name_servers[1].address,
            settings={"brokerClusterName": CLUSTER, **SMALL_FILES, **SETTINGS},
        )
        stack.callback(ours.process.kill)
        sites = (
            BrokerSite("apache", name_servers[0], apache, home / "apache"),
            BrokerSite("ours", name_servers[1], ours, home / "ours"),
        )
        for site in sites:
            site.broker.wait_ready()
        guests = [site.invite() for site in sites]
        for guest in guests:
            stack.callback(guest.kill)
        for guest, site in zip(guests, sites, strict=True):
            guest.wait_for_line("guests ready")
            guest.wait_for_line(f"{CLUSTER} ")  # the first round of clusterRT
            guest.wait_until(lambda site=site: site.has_committed, "commit its offsets")  # type: ignore[misc]
        yield sites
