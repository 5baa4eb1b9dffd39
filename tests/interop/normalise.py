"""Removal of what may differ between two sites in the output of one mqadmin command; everything else must be equal.

Pure: text in, lines out.
"""

import json
import re
from collections.abc import Mapping

# mqadmin prints these in the order of a Java hash table of addresses, names or keys: no order that anybody chose.
_UNORDERED = {
    "brokerStatus",
    "getNamesrvConfig",
    "topicList",
    "updateSubGroup",
    "updateTopic",
    "updateTopicPerm",
}
# How many words of a line come from the name server; the rest of the line is what the broker measures just now.
_WORDS_KEPT = {"clusterList": 5, "clusterList -m": 2}
_LOGBACK_STATUS = re.compile(r"^\d\d:\d\d:\d\d,\d{3} \|-")  # 5.x tells how it set up its own logging
_BARE_KEY = re.compile(r"([{,]\s*)(\d+):")
_PATH_SETTING = re.compile(r"^(kvConfigPath|configStorePath|rocketmqHome|listenPort)\b.*")


def normalise(command: str, output: str, own_names: Mapping[str, str]) -> list[str]:
    """Return the lines of *output* that two sites must agree on. *own_names* are a site's addresses and folders."""
    for own, common in own_names.items():
        output = output.replace(own, common)
    lines = [line for line in output.splitlines() if not _is_noise(line)]
    verb = command.split()[0]
    if verb == "topicRoute" and lines and lines[0] == "{":
        return _route_lines("\n".join(lines))
    if verb == "brokerStatus":
        lines = [line.partition(":")[0].rstrip() for line in lines]
    if verb == "getNamesrvConfig":
        lines = [_PATH_SETTING.sub(r"\1", line) for line in lines]
    if (words := _WORDS_KEPT.get(command)) is not None:
        lines = [" ".join(line.split()[:words]) for line in lines]
    return sorted(lines) if verb in _UNORDERED else lines


def _is_noise(line: str) -> bool:
    """Blank, a frame of a stack trace (the exception's own line stays), or logback's status."""
    words = line.split()
    return not words or (line.startswith("\t") and words[0] in {"at", "..."}) or bool(_LOGBACK_STATUS.match(line))


def _route_lines(text: str) -> list[str]:
    """Return a route with its lists in the order of broker names: Java's name server lists them as its hash sets do."""
    route = json.loads(_BARE_KEY.sub(r'\1"\2":', text))
    for key in ("brokerDatas", "queueDatas"):
        route[key].sort(key=lambda entry: str(entry["brokerName"]))
    return json.dumps(route, indent=1, sort_keys=True).splitlines()
