"""The mqadmin session that is held once with Apache's broker and once with ours: every command but those of ACL.

What a command prints may be needed by a later one, the id of a message above all: a step can keep it under a name, and
later steps put it where they have {name}.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.broker_sites import BROKER, CLUSTER, GUEST_TOPIC, ONLINE_GROUP, PRODUCER_GROUP, BrokerSite
from tests.interop.mqadmin import MqAdmin

PATIENCE_S = 60
LOGBACK = re.compile(r"^\d\d:\d\d:\d\d,\d{3} \|-.*\n", re.MULTILINE)  # 5.x tells how it set up its own logging
EXPORTED = re.compile(r"^export (\S+) success", re.MULTILINE)  # the file is what the command is about
FAILED = re.compile(r"\b[\w.]*(Exception|Error)\b")  # how mqadmin says that a command did not work


@dataclass(frozen=True)
class Step:
    """One command. *keeps* are regular expressions of one group each; what it matches is kept under the name."""

    command: str
    keeps: Mapping[str, str] = field(default_factory=dict)
    fails: bool = False  # mqadmin must complain
    waits: bool = False  # again and again until it works: what it looks for comes a moment later
    differs: str = ""  # why Apache's broker must print something else here
    in_one_word: tuple[str, str] = ("", "")  # Apache's word and ours, if that is all of the difference
    shows: tuple[str, ...] = ()  # what must be in the output, where there is nothing to compare it with


ID = r"\b([0-9A-F]{56}|[0-9A-F]{32})\b"

SCRIPT = (
    # The cluster and the broker
    Step("clusterList"),
    Step("clusterList -m"),
    Step("brokerStatus -b {broker}"),
    Step(f"brokerStatus -c {CLUSTER}"),
    # Topics
    Step(f"updateTopic -c {CLUSTER} -t Orders -r 4 -w 4"),
    Step("updateTopic -b {broker} -t Direct -r 2 -w 3 -p 6 -u true -s true"),
    Step(f"updateTopic -c {CLUSTER} -t Bad*Name", fails=True),
    Step(f"updateTopic -c {CLUSTER} -t TBW102", fails=True),
    Step(f"updateTopic -c {CLUSTER} -t Ordered -r 2 -w 2 -o true"),
    Step("updateOrderConf -t Ordered -m get"),
    Step(f"updateOrderConf -t Ordered -m put -v {BROKER}:2"),
    Step("updateOrderConf -t Ordered -m delete"),
    Step("topicList"),
    Step("topicList -c"),
    Step("topicRoute -t Orders"),
    Step("topicRoute -t Orders -l"),
    Step("topicStatus -t Orders"),
    Step("topicStatus -t Direct"),
    Step("topicStatus -t Nobody", fails=True),
    Step("topicClusterList -t Orders"),
    Step("updateTopicPerm -b {broker} -t Direct -p 4"),
    Step("sendMessage -t Direct -p refused", fails=True),
    Step(f"updateTopicPerm -c {CLUSTER} -t Direct -p 6"),
    Step("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2"),
    # Groups
    Step(f"updateSubGroup -c {CLUSTER} -g interop_group -r 5 -q 2"),
    Step("updateSubGroup -b {broker} -g interop_other -s false -d true"),
    Step("getConsumerConfig -g interop_group"),
    Step("getConsumerConfig -g nobody"),
    # Messages
    Step(f"sendMessage -t Orders -p hello0 -k key0 -c tagA -b {BROKER} -i 0", keeps={"first": ID}),
    Step(f"sendMessage -t Orders -p hello1 -k key1 -c tagB -b {BROKER} -i 1"),
    Step(f"sendMessage -t Orders -p hello2 -k key0 -c tagA -b {BROKER} -i 0 -m true", keeps={"traced": ID}),
    Step("queryMsgByKey -t Orders -k key0"),
    Step("queryMsgByKey -t Orders -k nobody", fails=True),
    Step("queryMsgByUniqueKey -t Orders -i {first}"),
    Step("queryMsgByUniqueKey -t Orders -i {first} -a"),
    Step(f"queryMsgByUniqueKey -t Orders -i {'0' * 32}", fails=True),
    Step(f"queryMsgByOffset -t Orders -b {BROKER} -i 0 -o 0"),
    Step(f"queryMsgByOffset -t {BROKER} -b {BROKER} -i 0 -o 0", keeps={"place": rf"OffsetID: +{ID}"}),
    Step("queryMsgById -i {place}"),
    Step("queryMsgById -i {place} -s true"),
    Step(f"queryMsgByOffset -t Orders -b {BROKER} -i 3 -o 77"),
    Step(f"queryMsgByOffset -t {GUEST_TOPIC} -b {BROKER} -i 0 -o 0", keeps={"guest": rf"OffsetID: +{ID}"}),
    Step("queryMsgById -i {guest}"),
    Step("queryMsgTraceById -i {traced}", waits=True),
    Step("queryMsgTraceById -i 00", fails=True),
    Step(f"printMsg -t {GUEST_TOPIC} -d true"),
    Step(f"printMsg -t {GUEST_TOPIC} -s tagB"),
    Step(f"printMsgByQueue -t Orders -a {BROKER} -i 0 -p true -d true -f true"),
    Step(f"consumeMessage -t Orders -b {BROKER} -i 0 -o 0 -c 1"),
    Step("consumeMessage -t Orders"),
    Step(f"sendMsgStatus -b {BROKER} -c 3"),
    Step("checkMsgSendRT -t Ordered -a 3 -s 10"),
    # Queues
    Step("queryCq -t Orders -q 0 -i 0 -c 2 -b {broker}"),
    Step(
        f"queryCq -t {GUEST_TOPIC} -q 0 -i 0 -c 2 -g {ONLINE_GROUP}",
        differs="Apache asks the filter only where consumequeue_ext is on, and says false for all others",
        in_one_word=("eval=false", "eval=true"),
    ),
    Step(f"queryCq -t {GUEST_TOPIC} -q 0 -i 0 -c 2 -g nobody"),
    Step("queryCq -t Orders -q 9 -i 0 -c 2", fails=True),
    Step("queryCq -t Orders -q 0 -i 99 -c 2", differs="Apache sends no body, on which mqadmin fails"),
    # Clients
    Step(f"consumerConnection -g {ONLINE_GROUP}", keeps={"client": r"(\S+@guest\S+)"}),
    Step("consumerConnection -g nobody", fails=True),
    Step(f"producerConnection -g {PRODUCER_GROUP} -t {GUEST_TOPIC}"),
    Step(f"producerConnection -g nobody -t {GUEST_TOPIC}", fails=True),
    Step("producer -b {broker}"),
    Step(f"consumerStatus -g {ONLINE_GROUP}"),
    Step(f"consumerStatus -g {ONLINE_GROUP} -i {{client}}"),
    Step(f"consumerStatus -g {ONLINE_GROUP} -i nobody", fails=True),
    Step(f"queryMsgById -i {{guest}} -g {ONLINE_GROUP} -d {{client}}"),
    Step(f"queryMsgById -i {{guest}} -g {ONLINE_GROUP} -d nobody", fails=True),
    # Figures
    Step("consumerProgress"),
    Step(f"consumerProgress -g {ONLINE_GROUP}"),
    Step(f"consumerProgress -g {ONLINE_GROUP} -s true"),
    Step("consumerProgress -g nobody", fails=True),
    Step("brokerConsumeStats -b {broker}"),
    Step("brokerConsumeStats -b {broker} -o true"),
    Step("statsAll"),
    Step(f"statsAll -t {GUEST_TOPIC}"),
    Step("statsAll -a"),
    # Settings
    Step("getBrokerConfig -b {broker}"),
    Step(f"getBrokerConfig -c {CLUSTER}"),
    Step("updateBrokerConfig -b {broker} -k brokerPermission -v 4"),
    Step("topicRoute -t Orders"),
    Step("updateBrokerConfig -b {broker} -k brokerPermission -v 6"),
    Step(f"updateBrokerConfig -c {CLUSTER} -k fileReservedTime -v 48"),
    Step(
        "updateBrokerConfig -b {broker} -k configBlackList -v none",
        fails=True,
        differs="4.9.8 refuses it as well (CVE-2023-33246); the newest broker of 4.9 on Maven Central is 4.9.7",
    ),
    # Space
    Step("cleanExpiredCQ -b {broker}"),
    Step(f"cleanExpiredCQ -c {CLUSTER}"),
    Step("cleanUnusedTopic -b {broker}"),
    Step("deleteExpiredCommitLog -b {broker}"),
    # Export
    Step(f"exportMetadata -c {CLUSTER} -f {{export}}"),
    Step("exportMetadata -b {broker} -t -f {export}"),
    Step("exportMetadata -b {broker} -g -f {export}"),
    Step(f"exportConfigs -c {CLUSTER} -f {{export}}"),
    Step(f"exportMetrics -c {CLUSTER} -f {{export}}"),
    # The name server
    Step(f"wipeWritePerm -b {BROKER}"),
    Step("topicRoute -t Orders -l"),
    Step(f"addWritePerm -b {BROKER}"),
    Step("updateKvConfig -s Space -k colour -v blue"),
    Step("deleteKvConfig -s Space -k colour"),
    Step("getNamesrvConfig"),
    Step("updateNamesrvConfig -k orderMessageEnable -v false"),
    # Offsets. The consumer pauses for ten seconds after a reset, so this comes last.
    Step(f"cloneGroupOffset -s {ONLINE_GROUP} -d interop_group -t {GUEST_TOPIC}"),
    Step(f"cloneGroupOffset -s nobody -d interop_group -t {GUEST_TOPIC}", fails=True),
    Step("brokerConsumeStats -b {broker}"),
    Step(f"resetOffsetByTime -g {ONLINE_GROUP} -t {GUEST_TOPIC} -s 1700000000000"),
    Step(f"resetOffsetByTime -g {ONLINE_GROUP} -t {GUEST_TOPIC} -s now"),
    Step("resetOffsetByTime -g nobody -t Orders -s now", fails=True),
    Step(f"skipAccumulatedMessage -g {ONLINE_GROUP} -t {GUEST_TOPIC}"),
    Step("skipAccumulatedMessage -g nobody -t Orders", fails=True),
    # The end of all
    Step(f"deleteSubGroup -c {CLUSTER} -g interop_group -r true"),
    Step("deleteSubGroup -b {broker} -g interop_other"),
    Step("getConsumerConfig -g interop_group"),
    Step(f"deleteTopic -c {CLUSTER} -t Orders"),
    Step(f"deleteTopic -c {CLUSTER} -t Nobody"),
    Step("topicStatus -t Orders", fails=True),
)
# What mqadmin of 5.3 asks for and that of 4.9 does not. Short, since it takes three seconds to end many a command.
SCRIPT_5 = (
    Step(f"updateTopic -c {CLUSTER} -t Fifo -r 2 -w 2 -a +message.type=FIFO", shows=("create topic to",)),
    Step(f"updateTopic -c {CLUSTER} -t Fifo -r 2 -w 2 -a +colour=blue", fails=True),
    Step("updateTopicList -b {broker} -f {topics}", shows=("success",)),
    Step("updateSubGroupList -b {broker} -f {groups}", shows=("success",)),
    Step("getConsumerConfig -g interop_listed", shows=("interop_listed",)),
    Step("topicStatus -t Listed", shows=(BROKER,)),
    Step("clusterList", shows=("V4_9_8",)),
    Step(f"consumerProgress -g {ONLINE_GROUP} -t {GUEST_TOPIC}", shows=(GUEST_TOPIC,)),
    Step(f"resetOffsetByTime -g {ONLINE_GROUP} -t {GUEST_TOPIC} -s -1 -b {{broker}} -q 0 -o 1", shows=(GUEST_TOPIC,)),
)
ENDLESS = ("clusterRT", "startMonitoring")  # the guests run them, see `java/SiteGuests.java`


def hold(script: Sequence[Step], admin: MqAdmin, site: BrokerSite) -> list[str]:
    """Return what each step of *script* printed on *site*."""
    topics, groups = site.home / "topics.json", site.home / "groups.json"
    topics.write_text('[{"topicName":"Listed","readQueueNums":2,"writeQueueNums":2}]')
    groups.write_text('[{"groupName":"interop_listed"}]')
    known = {
        "broker": site.broker.address,
        "export": str(site.home / "export"),
        "topics": str(topics),
        "groups": str(groups),
    }
    printed: list[str] = []
    for step in script:
        output = _run(step, admin, site, known)
        for name, pattern in step.keeps.items():
            found = re.search(pattern, output)
            assert found, f"{site.label}: {step.command} printed no {name}:\n{output}"
            known[name] = found[1]
        printed.append(output)
    return printed


def _run(step: Step, admin: MqAdmin, site: BrokerSite, known: Mapping[str, str]) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        output = LOGBACK.sub("", admin.run(site.namesrv.address, *step.command.format_map(known).split()))
        output += "".join(Path(path).read_text() for path in EXPORTED.findall(output))
        if not step.waits or not FAILED.search(output) or time.monotonic() > deadline:
            return output
        time.sleep(0.1)
