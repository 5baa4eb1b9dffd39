"""Removal of what may differ between two brokers in the output of one mqadmin command; the rest must be equal.

Pure: text in, lines out.
"""

import re
from collections.abc import Callable, Mapping

# Moments, addresses of clients, ids, and places in a log on which the guests write too: no two runs have the same.
_ANYWHERE = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b1[6-9]\d{11}\b", "MS"),
        (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:.]\d{3})?", "TIME"),
        (r"\b([0-9A-F]{56}|[0-9A-F]{32})\b", "ID"),
        (r"127\.0\.0\.1:\d+", "PEER"),
        (r"\b20\d{12}(\d{3})?\b", "TIME"),
        (r"@\d+#\d+", "@PROCESS"),
        (r"@[0-9a-f]{4,8}\b", "@OBJECT"),
        (r"0x[0-9a-f]+", "CLASS"),
        (r"\b([0-9A-F]{56}|[0-9A-F]{32})(?=SendResult)", "ID"),
        (r"\b\d+ms\b", "Nms"),
        (r"\b(physicOffset|commitLogOffset)=\d+", r"\1=N"),
        (r"(CommitLog Offset:) +\d+", r"\1 N"),
        (r"\brt=\d+ms", "rt"),
        (r"(\w*(RT|TPS|Cost)): [\d.]+", r"\1: N"),
        (r"(spentTimeMills=)\d+", r"\1N"),
        (r'("counter"):\d+', r"\1:N"),  # of changes, and the guests make some
        (r"[ \t]+", " "),
    )
)
OUR_OWN = {
    *("advertisedPort", "connectionsMax", "fastListenPortEnable", "groupsMax", "heldPullsMax", "topicsMax"),
    *("auditLogEnable", "auditLogPath", "auditLogFileBytes", "auditLogFiles"),
    *("aclFolder", "aclOpenWhiteList", "haAllowedPeers", "haConnectTimeout", "haConnectionsMax", "haReconnectInterval"),
    *("accountQuotas", "certificateAccountsEnable", "haTlsEnable", "wrongSignatureDelayMaxMillis"),
}
OF_5 = {
    *("allAckInSyncStateSet", "enableAutoInSyncReplicas", "enableSlaveActingMaster", "haFlowControlEnable"),
    *("authenticationEnabled", "authenticationMetadataProvider", "authenticationProvider", "authenticationStrategy"),
    *("authenticationWhitelist", "authorizationEnabled", "authorizationMetadataProvider", "authorizationProvider"),
    *("authorizationStrategy", "authorizationWhitelist", "initAuthenticationUser", "migrateAuthFromV1Enabled"),
    *("innerClientAuthenticationCredentials", "userCacheMaxNum", "userCacheExpiredSecond", "userCacheRefreshSecond"),
    *("aclCacheMaxNum", "aclCacheExpiredSecond", "aclCacheRefreshSecond", "statefulAuthenticationCacheMaxNum"),
    *("statefulAuthenticationCacheExpiredSecond", "statefulAuthorizationCacheMaxNum"),
    "statefulAuthorizationCacheExpiredSecond",
    *("defaultMessageRequestMode", "defaultPopShareQueueNum", "enableRetryTopicV2"),
    *("brokerHeartbeatInterval", "brokerNotActiveTimeoutMillis", "enableRemoteEscape", "sendHeartbeatTimeoutMillis"),
    "skipPreOnline",
    *("enableControllerMode", "controllerAddr", "asyncLearner"),
    *("syncFromLastFile", "haMaxTimeSlaveNotCatchup", "controllerHeartBeatTimeoutMills", "syncBrokerMetadataPeriod"),
    *("checkSyncStateSetPeriod", "brokerElectionPriority", "fenceWithoutController"),
    *("haMaxGapNotInSync", "inSyncReplicas", "maxHaTransferByteInSecond", "minInSyncReplicas", "totalReplicas"),
}
# Settings that two brokers cannot, or need not, have in common.
UNLIKE_SETTINGS = {
    "listenPort": "each has its own",
    "haListenPort": "each has its own",
    "brokerIP2": "the address for slaves",
    "rocketmqHome": "this broker needs no home beside its store",
    "storePathCommitLog": "below storePathRootDir unless it is set, and then not shown",
    "configBlackList": "new in 4.9.8, and Apache's broker here is 4.9.7",
    "diskMaxUsedSpaceRatio": "98 was asked for; both use 95, and this broker shows what it uses",
    "bitMapLengthConsumeQueueExt": "Apache's shows the length that it computes from two other settings",
    "mappedFileSizeTimerLog": "of 5.x, and in the file of Apache's broker here",
    "endTransactionThreadPoolNums": "Apache's depends on the number of processors; this broker has no thread pools",
    "sendMessageThreadPoolNums": "the same",
    "putMessageFutureThreadPoolNums": "the same",
    "clientCallbackExecutorThreads": "the same",
    "timerMaxDelaySec": "of 5.x: this broker has its timer",
    "recallMessageEnable": "of 5.x: this broker recalls timed messages",
    "timerWheelEnable": "the same",
    **dict.fromkeys(OF_5, "of 5.x, and this broker knows it"),
    **dict.fromkeys(OUR_OWN, "this broker has it and Apache's has not"),
}
# Of the runtime information: one of 5.x, two of ours.
MORE_KEYS = {"brokerActive", "groupsSubscribingDifferently", "hanabiVersion"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# There or not, as it happens: groups of mqadmin itself, what this broker has of 5.x, an offset that follows after 10 s.
_PASSING = re.compile(r"TOOLS_CONSUMER|MONITOR_CONSUMER|rmq_sys_wheel_timer|%RETRY%interop_online (\S+ )?broker-x")


def normalise_broker(command: str, output: str, own_names: Mapping[str, str]) -> list[str]:
    """Return the lines of *output* that two brokers must agree on. *own_names* are a site's addresses and folders."""
    for own, common in own_names.items():
        output = output.replace(own, common)
    for pattern, replacement in _ANYWHERE:
        output = pattern.sub(replacement, output)
    lines = [line.strip() for line in output.splitlines() if not _is_noise(line)]
    verb = command.split()[0]
    return _SPECIAL.get(command, _SPECIAL.get(verb, _as_it_is))(lines)


def _is_noise(line: str) -> bool:
    """Blank, or a frame of a stack trace; the exception's own line stays."""
    words = line.split()
    return not words or words[0] in {"at", "..."}


def _as_it_is(lines: list[str]) -> list[str]:
    return lines


def _words(count: int) -> Callable[[list[str]], list[str]]:
    """Keep so many words of a line, which are the cluster's; the rest is what the broker measures just now."""
    return lambda lines: [" ".join(line.split()[:count]) for line in lines]


def _names_only(lines: list[str]) -> list[str]:
    """Sort the lines, without figures and without the clients that happen to be there."""
    kept = [line for line in lines if not _PASSING.search(line)]
    return sorted(" ".join(word for word in line.split() if not _NUMBER.fullmatch(word)) for line in kept)


def _in_any_order(lines: list[str]) -> list[str]:
    return sorted(line for line in lines if not _PASSING.search(line))


def _lags(lines: list[str]) -> list[str]:
    """Sort the rows. The total counts the passing groups as well, and rows that mqadmin does not show, so it goes."""
    return [line for line in _in_any_order(lines) if not line.startswith("Diff Total:")]


def _keys_only(lines: list[str]) -> list[str]:
    keys = (line.partition(":")[0].strip() for line in lines)
    return sorted(key for key in keys if key.split()[-1] not in MORE_KEYS)


def _header_only(lines: list[str]) -> list[str]:
    """Return what counts as active depends on when the figures were last looked at."""
    return lines[:1]


def _settings(lines: list[str]) -> list[str]:
    """Return all settings that have a value, but for those of UNLIKE_SETTINGS."""
    settings = (line.partition(" = ") for line in lines if not line.startswith("="))
    return sorted(f"{key} = {value}" for key, _, value in settings if value and key not in UNLIKE_SETTINGS)


def _without_figures(lines: list[str]) -> list[str]:
    return [_NUMBER.sub("N", line) for line in lines]


def _running_info(lines: list[str]) -> list[str]:
    """Return what the client tells of itself. It begins with the retry topic when it happens to hear of it."""
    return _without_figures([line for line in lines if not line.startswith("%RETRY%")])


def _our_producers(lines: list[str]) -> list[str]:
    return [line for line in lines if "interop_producers" in line]


_SPECIAL: dict[str, Callable[[list[str]], list[str]]] = {
    "clusterList": _words(4),
    "clusterList -m": _words(2),
    "brokerStatus": _keys_only,
    "topicList": _in_any_order,
    "statsAll": _names_only,
    "consumerProgress": _in_any_order,
    "brokerConsumeStats": _lags,
    "checkMsgSendRT": _words(3),
    "producer": _our_producers,
    "statsAll -a": _header_only,
    "exportMetrics": _without_figures,
    "getBrokerConfig": _settings,
    "getNamesrvConfig": sorted,
    "consumerStatus": _running_info,
    "wipeWritePerm": _without_figures,  # how many topics there are
    "addWritePerm": _without_figures,
}
