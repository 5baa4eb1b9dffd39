"""Results of a measurement as text."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hanabi.cli.shared.render import Cell, pairs, table

if TYPE_CHECKING:
    from hanabi.bench.results import Consumed, EndToEnd, Failure, Flow, Produced, StoreMeasured, Times
    from hanabi.bench.send_schedule import Limits

BUSY_CPU = 0.9  # of a core: then this process may be what was measured
SEND_OK = "SEND_OK"


def limits_text(limits: "Limits") -> str:
    words = [f"for {limits.seconds:g} s" if limits.count is None else f"until there are {limits.count:,}"]
    if limits.rate is not None:
        words.append(f"{limits.rate:g} a second")
    elif limits.bytes_max is not None and limits.count is None:
        words.append(f"{limits.bytes_max / 1e9:g} GB at most (--yes: without that limit)")
    return ", ".join(words)


def produced_text(found: "Produced") -> str:
    unsafe = [(status, count) for status, count in sorted(found.statuses.items()) if status != SEND_OK]
    return "".join(
        (
            pairs(
                [
                    *_flow_pairs(found.sent),
                    ("failed", found.failed),
                    *unsafe,
                    *_cpu(found.client_cpu),
                    ("ended by", found.ended),
                ]
            ),
            _times_text([("send", found.latency)]),
            _failures_text(found.failures),
        )
    )


def consumed_text(found: "Consumed") -> str:
    return "".join(
        (
            pairs([*_flow_pairs(found.received), *_cpu(found.client_cpu), ("ended by", found.ended)]),
            _times_text([("age", found.age)]),
        )
    )


def end_to_end_text(found: "EndToEnd") -> str:
    return "".join(
        (
            pairs(
                [
                    *_flow_pairs(found.sent),
                    ("received", found.received),
                    ("failed", found.failed),
                    ("lost", found.lost),
                    ("duplicated", found.duplicated),
                    *_cpu(found.client_cpu),
                    ("ended by", found.ended),
                ]
            ),
            _times_text([("send to listener", found.latency), ("send", found.send_latency)]),
            _failures_text(found.failures),
        )
    )


def store_text(found: "StoreMeasured") -> str:
    flows = (("append", found.append), ("read", found.read), ("append and sync", found.sync))
    return "".join(
        (
            table(
                ("what", "messages", "seconds", "messages/s", "MB/s"),
                [
                    (what, flow.messages, flow.seconds, round(flow.messages_per_second), flow.megabytes_per_second)
                    for what, flow in flows
                ],
            ),
            _times_text([("append", found.append_latency), ("append and sync", found.sync_latency)]),
            "\n" + pairs([("ended by", found.ended)]),
        )
    )


def _flow_pairs(flow: "Flow") -> list[tuple[str, Cell]]:
    return [
        ("messages", flow.messages),
        ("seconds", flow.seconds),
        ("messages/s", round(flow.messages_per_second)),
        ("MB/s", flow.megabytes_per_second),
    ]


def _cpu(share: float) -> list[tuple[str, Cell]]:
    hint = ": may be what was measured, not the cluster" if share > BUSY_CPU else ""
    return [("CPU here", f"{share:.0%} of a core{hint}")]


def _times_text(rows: "Iterable[tuple[str, Times | None]]") -> str:
    known: list[Sequence[Cell]] = [
        (what, times.mean_ms, times.p50_ms, times.p90_ms, times.p99_ms, times.p999_ms, times.max_ms)
        for what, times in rows
        if times is not None
    ]
    columns = ("time", "mean ms", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms")
    return "\n" + table(columns, known, empty="nothing was measured")


def _failures_text(failures: "list[Failure]") -> str:
    if not failures:
        return ""
    rows = [(failure.reason, failure.messages, failure.example) for failure in failures]
    return "\n" + table(("failed by", "messages", "for example"), rows)
