"""Apache's clients find Apache's brokers by the routes of our name server: messages go out and come in."""

import subprocess
from pathlib import Path

import pytest

from tests.interop.apache import java, java_environment
from tests.interop.jars import ADMIN_4, ALL_5, driver_classpath
from tests.interop.mqadmin import MqAdmin
from tests.interop.sites import CLUSTER, Site

MESSAGES = 10


@pytest.mark.parametrize("jar_set", [ADMIN_4, ALL_5])
def test_apaches_producer_and_consumer_exchange_messages(
    our_site: Site, admin_4: MqAdmin, tmp_path: Path, jar_set: str
) -> None:
    topic = f"RoundTrip_{jar_set}"
    admin_4.run(our_site.namesrv.address, "updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2")
    our_site.wait_for_topic(topic)
    command = java(tmp_path, driver_classpath(jar_set), "RoundTrip", our_site.namesrv.address, topic, str(MESSAGES))
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=java_environment(), check=False)
    sent = {f"sent message {i} SEND_OK" for i in range(MESSAGES)}
    received = {f"received message {i}" for i in range(MESSAGES)}
    assert {line for line in done.stdout.splitlines() if line.startswith(("sent", "received"))} == sent | received, (
        done.stdout + done.stderr
    )
