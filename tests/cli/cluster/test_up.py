"""`hanabi cluster up --local`: each form starts for real, takes messages, and ends with Ctrl-C."""

import re
import signal
import sys
from pathlib import Path

import pytest

import hanabi
from hanabi.cli.cluster.forms import Form
from hanabi.testing.waiting import wait_until
from tests.cli.admin_commands import run
from tests.interop.processes import ServerProcess

QUICK = Form.ONE_HOST
FORMS = [pytest.param(form, marks=() if form is QUICK else pytest.mark.slow, id=form.value) for form in Form]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_takes_messages_and_ends_with_ctrl_c(form: Form, tmp_path: Path) -> None:
    words = ["cluster", "up", "--local", form.value, "--port", "0", "--home", str(tmp_path / "home")]
    process = ServerProcess("cluster", [sys.executable, "-m", "hanabi", *words], tmp_path / "console.log")
    try:
        line = process.wait_for_line("the cluster is up; its name servers: ")
        namesrv = line.rpartition(": ")[2]
        create = ("topic", "create", "Up", "--queues", "2", "-n", namesrv)
        process.wait_until(lambda: run(*create).returncode == 0, "have a master")
        if "slaves" in form:
            check = ("broker", "replication", "--max-lag", "0", "-n", namesrv)
            process.wait_until(lambda: run(*check).returncode == 0, "see the slaves follow")
        bodies = {str(number).encode() for number in range(8)}
        with hanabi.Producer("p", namesrv=namesrv, retries=10) as producer:
            sent = [producer.send(hanabi.Message("Up", body)) for body in bodies]
        assert {result.status.name for result in sent} == {"SEND_OK"}
        assert received(namesrv, bodies) == bodies
        children = re.findall(r"^ready ", process.output(), re.MULTILINE)
        assert len(children) >= 2
        process.send_signal(signal.SIGINT)
        assert process.wait_ended() == 0
        assert (tmp_path / "home" / "conf").is_dir()
    finally:
        process.kill()


def received(namesrv: str, wanted: set[bytes]) -> set[bytes]:
    bodies: set[bytes] = set()
    consumer = hanabi.PushConsumer("g", namesrv=namesrv, consume_from="first")
    consumer.subscribe("Up")

    @consumer.listener
    def keep(messages: list[hanabi.StoredMessage]) -> None:
        bodies.update(message.body for message in messages)

    with consumer:
        wait_until(lambda: wanted <= bodies, lambda: f"consuming {sorted(wanted - bodies)}", 90)
    return bodies


def test_a_server_that_cannot_start_ends_all_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "container").write_text("where a directory should be")
    words = ["cluster", "up", "--local", "one-host", "--port", "0", "--home", str(tmp_path)]
    process = ServerProcess("cluster", [sys.executable, "-m", "hanabi", *words], tmp_path / "console.log")
    try:
        assert process.wait_ended() == 2
        assert "hanabi: container does not start: home " in process.output()
    finally:
        process.kill()
