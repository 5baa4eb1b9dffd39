"""Reads pages as Prometheus does: over a real socket, and with the parser of its own client."""

import asyncio
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


async def ask(address: tuple[str, int], request: bytes) -> Answer:
    """Send *request*, read until the server closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    raw = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    return Answer(int(first.split(" ")[1]), headers, body)


async def get(address: tuple[str, int], path: str) -> Answer:
    return await ask(address, f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n".encode())


class Figures:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {}
        self.samples: dict[tuple[str, Labels], float] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in self.families, f"{family.name} is there twice"
            assert family.type != "unknown", family.name
            assert family.documentation, family.name
            self.families[family.name] = family
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.samples, f"{key} is there twice"
                self.samples[key] = sample.value

    def __call__(self, name: str, **labels: object) -> float:
        return self.samples[name, frozenset((key, str(value)) for key, value in labels.items())]

    def has(self, name: str) -> bool:
        return any(sample == name for sample, _ in self.samples)

    def total(self, name: str, **labels: object) -> float:
        """Over all samples that have these labels, among others."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        return sum(value for (sample, has), value in self.samples.items() if sample == name and wanted <= has)


async def scrape(address: tuple[str, int]) -> Figures:
    answer = await get(address, "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    return Figures(answer.body.decode())
