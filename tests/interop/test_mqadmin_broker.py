"""Apache's mqadmin prints the same with our broker as with Apache's: every command but those of ACL.

Apache's broker here is 4.9.7, the last of the 4.9 line on Maven Central. What must differ says why in the script.
"""

from collections.abc import Iterator

import pytest

from tests.interop.broker_sites import BROKER, CLUSTER, BrokerSite, broker_sites
from tests.interop.mqadmin import MqAdmin
from tests.interop.mqadmin_broker_script import ENDLESS, FAILED, SCRIPT, SCRIPT_5, Step, hold
from tests.interop.normalise_broker import normalise_broker

Sites = tuple[BrokerSite, BrokerSite]

# All subcommands of 4.9.8 (MQAdminStartup) but those of ACL.
COMMANDS = {
    "addWritePerm", "allocateMQ", "brokerConsumeStats", "brokerStatus", "checkMsgSendRT", "cleanExpiredCQ",
    "cleanUnusedTopic", "cloneGroupOffset", "clusterList", "clusterRT", "consumeMessage", "consumerConnection",
    "consumerProgress", "consumerStatus", "deleteExpiredCommitLog", "deleteKvConfig", "deleteSubGroup",
    "deleteTopic", "exportConfigs", "exportMetadata", "exportMetrics", "getBrokerConfig", "getConsumerConfig",
    "getNamesrvConfig", "printMsg", "printMsgByQueue", "producer", "producerConnection", "queryCq", "queryMsgById",
    "queryMsgByKey", "queryMsgByOffset", "queryMsgByUniqueKey", "queryMsgTraceById", "resetOffsetByTime",
    "sendMessage", "sendMsgStatus", "skipAccumulatedMessage", "startMonitoring", "statsAll", "topicClusterList",
    "topicList", "topicRoute", "topicStatus", "updateBrokerConfig", "updateKvConfig", "updateNamesrvConfig",
    "updateOrderConf", "updateSubGroup", "updateTopic", "updateTopicPerm", "wipeWritePerm",
}  # fmt: skip


@pytest.fixture(scope="module")
def sites(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with broker_sites(tmp_path_factory.mktemp("broker-sites")) as both:
        yield both


@pytest.fixture(scope="module")
def printed(sites: Sites, admin_4: MqAdmin) -> tuple[list[str], list[str]]:
    """Return what each step printed with Apache's broker, and with ours."""
    apache, ours = sites
    return hold(SCRIPT, admin_4, apache), hold(SCRIPT, admin_4, ours)


@pytest.mark.parametrize(
    ("number", "step"),
    [pytest.param(number, step, id=f"{number}-{step.command}") for number, step in enumerate(SCRIPT)],
)
def test_mqadmin_prints_the_same_with_our_broker(
    sites: Sites, printed: tuple[list[str], list[str]], number: int, step: Step
) -> None:
    there, here = printed[0][number], printed[1][number]
    assert bool(FAILED.search(here)) == step.fails, here
    if step.differs and not step.in_one_word[0]:
        assert bool(FAILED.search(there)) != step.fails, "what was to be better here works there as well now"
        return
    assert bool(FAILED.search(there)) == step.fails, there
    apache, ours = (
        normalise_broker(step.command, text, site.own_names) for text, site in zip((there, here), sites, strict=True)
    )
    assert ours == [line.replace(*step.in_one_word) if step.in_one_word[0] else line for line in apache]


def test_every_command_is_in_the_script() -> None:
    assert {step.command.split()[0] for step in SCRIPT} | set(ENDLESS) == COMMANDS


def test_messages_of_all_sizes_are_sent_in_time(sites: Sites) -> None:
    """clusterRT, which never ends: all four sends of its first round succeed on both sites."""
    for site in sites:
        assert site.guests is not None
        lines = [line.split() for line in site.guests.output().splitlines()]
        (row,) = [words for words in lines if words[:2] == [CLUSTER, BROKER]]
        assert row[3:] == ["4", "0"], site.label


def test_monitoring_watches_the_broker(sites: Sites) -> None:
    """startMonitoring, which never ends and prints nothing: its consumer is a member of its group on both sites."""
    for site in sites:
        assert site.guests is not None
        assert site.is_monitored, site.label


@pytest.fixture(scope="module")
def printed_by_5(sites: Sites, printed: object, admin_5: MqAdmin) -> list[str]:
    """Return what mqadmin of 5.3 prints with our broker, when that of 4.9 is done with it."""
    return hold(SCRIPT_5, admin_5, sites[1])


@pytest.mark.parametrize(
    ("number", "step"), [pytest.param(number, step, id=step.command) for number, step in enumerate(SCRIPT_5)]
)
def test_commands_of_the_5_3_line_work_too(printed_by_5: list[str], number: int, step: Step) -> None:
    assert bool(FAILED.search(printed_by_5[number])) == step.fails, printed_by_5[number]
    for text in step.shows:
        assert text in printed_by_5[number]
