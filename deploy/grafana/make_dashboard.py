"""Writes hanabi.json, the dashboard: panels that differ in their title, their unit and what they ask for.

python deploy/grafana/make_dashboard.py > deploy/grafana/hanabi.json
"""

import json
import sys
from typing import Any, NamedTuple

INSTANCE = 'instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${source}"}


class Asked(NamedTuple):
    """A question, and what its lines are called."""

    question: str
    legend: str


def now(name: str, by: str, legend: str) -> Asked:
    """A gauge, summed by some labels."""
    return Asked(f"sum by ({by}) ({name}{{{INSTANCE}}})", legend)


def a_second(name: str, by: str, legend: str, *more: str) -> Asked:
    """How fast a counter grows, summed by some labels."""
    selected = ",".join((INSTANCE, *more))
    return Asked(f"sum by ({by}) (rate({name}{{{selected}}}[$__rate_interval]))", legend)


def quantile(share: float, name: str, by: str, *more: str) -> Asked:
    """The time within which such a share was done."""
    inner = a_second(f"{name}_bucket", by, "", *more).question
    return Asked(f"histogram_quantile({share}, {inner})", f"p{share * 100:g}")


def times_of(request: str) -> list[Asked]:
    return [quantile(share, "hanabi_request_seconds", "le", f'request=~"{request}"') for share in (0.5, 0.99, 0.999)]


PANELS: list[tuple[str, str, list[Asked]]] = [
    ("Messages in, by topic", "cps", [a_second("hanabi_messages_in_total", "topic", "{{topic}}")]),
    ("Messages out", "cps", [a_second("hanabi_messages_out_total", "topic, group", "{{topic}} {{group}}")]),
    (
        "Bytes",
        "Bps",
        [
            a_second("hanabi_bytes_in_total", "instance", "in {{instance}}"),
            a_second("hanabi_bytes_out_total", "instance", "out {{instance}}"),
        ],
    ),
    ("Lag, by group and topic", "short", [now("hanabi_group_lag_messages", "group, topic", "{{group}} {{topic}}")]),
    (
        "Lag of the worst queues",
        "short",
        [
            Asked(
                f"topk(10, {now('hanabi_queue_lag_messages', 'group, topic, queue', '').question})",
                "{{group}} {{topic}}/{{queue}}",
            )
        ],
    ),
    ("Sends: time until answered", "s", times_of("SEND_.*")),
    ("Pulls that were not held: time until answered", "s", times_of("PULL_MESSAGE")),
    ("Requests", "reqps", [a_second("hanabi_request_seconds_count", "server, request", "{{server}} {{request}}")]),
    (
        "Failed requests",
        "reqps",
        [a_second("hanabi_requests_failed_total", "request, code", "{{request}} {{code}}", 'code!~"PULL_.*"')],
    ),
    ("Loop delay", "s", [quantile(0.99, "hanabi_loop_delay_seconds", "le")]),
    (
        "Connections and held pulls",
        "short",
        [
            now("hanabi_connections", "server", "connections {{server}}"),
            now("hanabi_held_pulls", "instance", "held {{instance}}"),
        ],
    ),
    ("Disk", "percentunit", [now("hanabi_disk_used_ratio", "instance, what", "{{instance}} {{what}}")]),
    ("Not on the disk yet", "bytes", [now("hanabi_flush_behind_bytes", "instance", "{{instance}}")]),
    ("Memory", "bytes", [now("process_resident_memory_bytes", "instance", "{{instance}}")]),
    ("Processor", "percentunit", [a_second("process_cpu_seconds_total", "instance", "{{instance}}")]),
    ("Slaves: lag", "bytes", [now("hanabi_replication_lag_bytes", "instance, slave", "{{instance}} {{slave}}")]),
    (
        "Slaves: sent to them",
        "Bps",
        [now("hanabi_replication_bytes_per_second", "instance, slave", "{{instance}} {{slave}}")],
    ),
    (
        "Slaves in sync, and needed",
        "short",
        [
            now("hanabi_replication_slaves_in_sync", "instance", "in sync {{instance}}"),
            now("hanabi_replication_slaves_needed", "instance", "needed {{instance}}"),
        ],
    ),
    ("Waiting for a delay", "short", [now("hanabi_delayed_messages", "level", "level {{level}}")]),
    (
        "Controller: replicas",
        "short",
        [
            now("hanabi_controller_replicas_in_sync", "broker", "in sync {{broker}}"),
            now("hanabi_controller_replicas_alive", "broker", "alive {{broker}}"),
        ],
    ),
    (
        "Controller: leader and elections",
        "short",
        [
            now("hanabi_controller_leads", "instance", "leads {{instance}}"),
            now("hanabi_controller_master_epoch", "broker", "epoch {{broker}}"),
        ],
    ),
]


def panel(number: int, title: str, unit: str, asked: list[Asked]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "expr": one.question, "legendFormat": one.legend, "datasource": SOURCE}
        for index, one in enumerate(asked)
    ]
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": SOURCE,
        "targets": targets,
        "gridPos": {"h": 8, "w": 8, "x": number % 3 * 8, "y": number // 3 * 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 5}}, "overrides": []},
        "options": {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]}},
    }


def dashboard() -> dict[str, Any]:
    instances = {
        "name": "instance",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(hanabi_build_info, instance)",
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
    return {
        "uid": "hanabi",
        "title": "Hanabi",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}, instances]},
        "panels": [panel(number, *one) for number, one in enumerate(PANELS)],
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    sys.stdout.write("\n")
