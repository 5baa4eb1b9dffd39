"""Forms of deployment in deploy/forms: each starts as a whole, copies what it promises, and takes messages."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import hanabi
from tests.cli.admin_commands import run
from tests.interop.processes import ServerProcess

FORMS = Path(__file__).parent.parent / "deploy" / "forms"
NAMES = ["masters-and-slaves-async", "masters-and-slaves-sync", "several-masters", "single-master"]
SMALL = "mappedFileSizeCommitLog=4194304\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
HERE = ("--host", "127.0.0.1", "--port", "0")


def test_every_form_is_tried() -> None:
    assert sorted(path.name for path in FORMS.iterdir()) == NAMES


@pytest.mark.parametrize("file", sorted(FORMS.glob("*/*.conf")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_key_of_a_form_has_an_effect(file: Path) -> None:
    shown = run("serve", "broker", "-c", str(file), "--config")
    assert shown.returncode == 0, shown.stderr
    lines = [line for line in shown.stdout.splitlines() if re.search(r"\bfile\b", line)]
    assert len(lines) >= 7
    assert not [line for line in lines if "effect" in line]


def server(*words: str, home: Path) -> ServerProcess:
    command = [sys.executable, "-m", "hanabi", "serve", *words, "--home", str(home), *HERE]
    return ServerProcess(home.name, command, home.parent / f"{home.name}.log")


@contextmanager
def started(form: str, home: Path) -> Iterator[tuple[str, ServerProcess]]:
    """Yield a name server and all brokers of the form; yields the name server's address and process."""
    with ExitStack() as stack:
        first = server("namesrv", home=home / "namesrv")
        stack.callback(first.kill)
        namesrv = first.wait_for_line("ready namesrv ").split()[-1]
        for file in sorted((FORMS / form).glob("*.conf"), key=lambda file: file.stem.endswith("-s")):  # slaves last
            text = re.sub(r"^namesrvAddr=.*$", f"namesrvAddr={namesrv}", file.read_text(), flags=re.MULTILINE)
            config = home / file.name
            config.write_text(text + SMALL)
            broker = server("broker", "-c", str(config), home=home / file.stem)
            stack.callback(broker.kill)
            broker.wait_for_line("ready broker ")
        yield namesrv, first


@pytest.mark.parametrize("form", NAMES)
def test_a_form_starts_and_takes_messages(form: str, tmp_path: Path) -> None:
    brokers = {file.stem for file in (FORMS / form).glob("*.conf")}
    with started(form, tmp_path) as (namesrv, process):
        listed = ("cluster", "list", "-n", namesrv)
        process.wait_until(lambda: run(*listed).stdout.count("\n") == len(brokers) + 1, "list all brokers")
        if "slaves" in form:
            check = ("broker", "replication", "--max-lag", "0", "-n", namesrv)
            process.wait_until(lambda: run(*check).returncode == 0, "see the slaves follow")
        assert run("topic", "create", "Forms", "--queues", "2", "-n", namesrv).returncode == 0
        with hanabi.Producer("forms", namesrv=namesrv) as producer:
            sent = [producer.send(hanabi.Message("Forms", b"x")) for _ in range(8)]
        assert {result.status.name for result in sent} == {"SEND_OK"}
        assert {result.queue.broker_name for result in sent} == {name for name in brokers if not name.endswith("-s")}
