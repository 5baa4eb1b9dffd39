"""The mqadmin sessions that are held once with Apache's name server and once with ours.

Each begins and ends with the same state, so that another can follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hanabi.wire.codes import RequestCode
from tests.interop.mqadmin import MqAdmin
from tests.interop.normalise import normalise
from tests.interop.probe import ask
from tests.interop.sites import CLUSTER, Site

# By mqadmin's line: the lines of each step with Apache's name server, and with ours.
Transcripts = Mapping[str, tuple[list[list[str]], list[list[str]]]]


@dataclass(frozen=True)
class Step:
    """One command; then wait until the route of *topic* shows *shows* for every broker.

    A broker tells its name server of a change when it has answered mqadmin, so that is not seen at once.
    """

    command: str
    topic: str = ""
    shows: str = ""
    fails: bool = False  # an exception is what mqadmin must print here


SCRIPT_4 = (
    Step("clusterList"),
    Step("clusterList -m"),
    Step("topicList"),
    Step("topicRoute -t Orders", fails=True),
    Step(f"updateTopic -c {CLUSTER} -t Orders -r 4 -w 4", "Orders", '"readQueueNums":4'),
    Step("topicRoute -t Orders"),
    Step("topicRoute -t Orders -l"),
    Step("topicStatus -t Orders"),
    Step("topicClusterList -t Orders"),
    Step(f"updateTopic -c {CLUSTER} -t Orders -r 6 -w 5 -p 6", "Orders", '"readQueueNums":6'),
    Step("topicRoute -t Orders"),
    Step(f"updateTopic -c {CLUSTER} -t Units -r 2 -w 2 -u true -s true", "Units", '"topicSysFlag":3'),
    Step("topicRoute -t Units"),
    Step(f"updateTopicPerm -c {CLUSTER} -t Units -p 4", "Units", '"perm":4'),
    Step("topicRoute -t Units"),
    Step("topicList"),
    Step("topicList -c"),
    Step(f"updateTopic -c {CLUSTER} -t Ordered -r 3 -w 3 -o true", "Ordered", '"readQueueNums":3'),
    Step("updateOrderConf -t Ordered -m get"),
    Step("topicRoute -t Ordered"),
    Step("updateNamesrvConfig -k orderMessageEnable -v true"),
    Step("topicRoute -t Ordered"),
    Step("updateOrderConf -t Ordered -m put -v broker-4:7;broker-5:1"),
    Step("topicRoute -t Ordered"),
    Step("updateOrderConf -t Ordered -m delete"),
    Step("updateOrderConf -t Ordered -m get", fails=True),
    Step("topicRoute -t Ordered"),
    Step("getNamesrvConfig"),
    Step("updateNamesrvConfig -k orderMessageEnable -v false"),
    Step("wipeWritePerm -b broker-4"),
    Step("topicRoute -t Orders"),
    Step("topicRoute -t Orders -l"),
    Step("addWritePerm -b broker-4"),
    Step("topicRoute -t Orders"),
    Step("wipeWritePerm -b broker-nobody-knows"),
    Step("addWritePerm -b broker-nobody-knows"),
    Step("updateKvConfig -s InteropSpace -k colour -v blue"),
    Step("updateKvConfig -s InteropSpace -k colour -v red"),
    Step("deleteKvConfig -s InteropSpace -k colour"),
    Step("deleteKvConfig -s InteropSpace -k colour"),
    Step("deleteKvConfig -s SpaceNobodyKnows -k colour"),
    Step("getNamesrvConfig"),
    Step("updateNamesrvConfig -k kvConfigPath -v elsewhere.json", fails=True),
    Step("updateNamesrvConfig -k configStorePath -v elsewhere.conf", fails=True),
    Step(f"updateSubGroup -c {CLUSTER} -g interop_group"),
    Step(f"brokerStatus -c {CLUSTER}"),
    Step(f"deleteTopic -c {CLUSTER} -t Orders"),
    Step(f"deleteTopic -c {CLUSTER} -t Units"),
    Step(f"deleteTopic -c {CLUSTER} -t Ordered"),
    Step("topicRoute -t Orders", fails=True),
    Step("topicList"),
)

# Shorter, since mqadmin of 5.3 takes three seconds to end many a command.
SCRIPT_5 = (
    Step("clusterList"),
    Step("topicList"),
    Step(f"updateTopic -c {CLUSTER} -t Orders -r 4 -w 4", "Orders", '"readQueueNums":4'),
    Step("topicRoute -t Orders"),
    Step("topicClusterList -t Orders"),
    Step("wipeWritePerm -b broker-5"),
    Step("topicRoute -t Orders -l"),
    Step("addWritePerm -b broker-5"),
    Step("updateKvConfig -s InteropSpace -k colour -v blue"),
    Step("deleteKvConfig -s InteropSpace -k colour"),
    Step("getNamesrvConfig"),
    Step("updateNamesrvConfig -k kvConfigPath -v elsewhere.json", fails=True),
    Step(f"deleteTopic -c {CLUSTER} -t Orders"),
    Step("topicRoute -t Orders", fails=True),
)


def hold(script: Sequence[Step], admin: MqAdmin, site: Site) -> list[list[str]]:
    """Return every step of *script* on *site*; what each printed, without what is the site's own."""
    printed: list[list[str]] = []
    for step in script:
        output = admin.run(site.namesrv.address, *step.command.split())
        printed.append(normalise(step.command, output, site.own_names))
        if step.topic:
            _wait_for_route(site, step.topic, step.shows)
    return printed


def _wait_for_route(site: Site, topic: str, shows: str) -> None:
    def shown() -> bool:
        route = ask(site.namesrv.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body
        return route.count(shows.encode()) == len(site.brokers)

    site.brokers[0].process.wait_until(shown, f"make the route of {topic} show {shows}")
