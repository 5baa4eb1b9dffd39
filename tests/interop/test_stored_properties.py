"""The properties of a record are Apache's, byte for byte: those of 4.9 for its clients, those of 5.3 for its own."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.ours import OurBroker
from tests.interop.probe import Conversation
from tests.interop.stored_cases import BATCHES, SINGLE, WITHOUT_KEY, Sent, comparable, send_all, stored

CASES = [*SINGLE, *WITHOUT_KEY, *BATCHES]
CLUSTER = "DefaultCluster"
V4_9_8, V5_3_3 = 409, 475

Kept = list[tuple[Sent, list[bytes]]]


def kept_by(broker: ApacheBroker | OurBroker, version: int) -> Kept:
    try:
        broker.wait_ready()
        with Conversation(broker.address) as conversation:
            send_all(conversation, CASES, version)
        return list(stored(broker.home / "store", CASES))
    finally:
        broker.process.kill()


def kept_by_apache(home: Path, jar_set: str, version: int) -> Kept:
    patient = {"waitTimeMillsInSendQueue": 60_000}  # it refuses what waited for longer, on a busy machine
    broker = ApacheBroker(home, jar_set, name="broker-a", cluster=CLUSTER, namesrv=None, settings=patient)
    return kept_by(broker, version)


def kept_by_us(home: Path, version: int) -> Kept:
    return kept_by(OurBroker(home, name="broker-a", namesrv=None), version)


@pytest.mark.parametrize(("jar_set", "version"), [(SERVERS_4, V4_9_8), (ALL_5, V5_3_3)])
def test_what_a_record_keeps_of_properties_is_what_apaches_record_keeps(
    apache_jars: None, tmp_path: Path, jar_set: str, version: int
) -> None:
    with ThreadPoolExecutor(2) as both:
        theirs = both.submit(kept_by_apache, tmp_path / "apache", jar_set, version)
        ours = both.submit(kept_by_us, tmp_path / "ours", version)
        pairs = zip(theirs.result(), ours.result(), strict=True)
    different = [
        (case, apaches, our)
        for (case, apaches), (_, our) in pairs
        if [comparable(raw) for raw in apaches] != [comparable(raw) for raw in our]
    ]
    assert different == []
