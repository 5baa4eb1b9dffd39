"""Members of one group of consumers, in Java and in Python, that tell which queues they have and what they got."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.message import StoredMessage
from tests.interop.apache import java, java_environment
from tests.interop.client_columns import PATIENT_JVM
from tests.interop.jars import driver_classpath

GROUP = "MixedGroup"
TOPIC = "MixedTopic"
LEAVE_SECONDS = 90


class Member(Protocol):
    """`got` are the bodies of what it consumed, in order, with repetitions."""

    name: str

    @property
    def got(self) -> list[str]: ...

    @property
    def queues(self) -> set[int]: ...

    async def leave(self) -> None: ...


class PythonMember:
    def __init__(self, name: str, namesrv: str) -> None:
        self.name = name
        self.got: list[str] = []
        config = ClientConfig(namesrv=namesrv, instance=name, request_timeout_s=20.0)
        self._consumer = PushConsumer(GROUP, config=config, consume_from="first")
        self._consumer.subscribe(TOPIC)
        self._consumer.listener(self._keep)
        self._has_left = False

    async def _keep(self, messages: list[StoredMessage]) -> None:
        self.got += [message.body.decode() for message in messages]

    async def join(self) -> None:
        await self._consumer.start()

    @property
    def queues(self) -> set[int]:
        if self._has_left:
            return set()
        return {queue.queue_id for queue in self._consumer.queues if queue.topic == TOPIC}

    async def leave(self) -> None:
        self._has_left = True
        await self._consumer.shutdown()


class ProcessMember:
    """A process of its own; what it prints goes to a file, which is read as it grows."""

    def __init__(self, name: str, home: Path, command: list[str]) -> None:
        self.name = name
        self._printed, self._complaints = home / f"{name}.out", home / f"{name}.err"
        self._leaves = False
        with self._printed.open("wb") as output, self._complaints.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=errors, env=java_environment()
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    async def join(self) -> None:
        """Start it; it joins when it is up, without waiting here."""

    def _lines(self, kind: str) -> list[str]:
        whole, _, _ = self._printed.read_text().rpartition("\n")
        return [line.removeprefix(kind) for line in whole.split("\n") if line.startswith(kind)]

    @property
    def got(self) -> list[str]:
        return self._lines("GOT ")

    @property
    def queues(self) -> set[int]:
        if (code := self._process.poll()) is not None:
            assert self._leaves, f"{self.name} ended with {code}: {self._complaints.read_text()[-4_000:]}"
            return set()
        told = self._lines("QUEUES ")
        return {int(number) for number in told[-1].split(",") if number} if told else set()

    async def leave(self) -> None:
        self._leaves = True
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        await asyncio.to_thread(self._process.wait, LEAVE_SECONDS)

    def kill(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait(LEAVE_SECONDS)


class JavaMember(ProcessMember):
    """A JVM."""

    def __init__(self, name: str, namesrv: str, home: Path, jar_set: str) -> None:
        jars = driver_classpath(jar_set)
        super().__init__(
            name, home, java(home / name, jars, "GroupMember", namesrv, GROUP, TOPIC, name, jvm=PATIENT_JVM)
        )


class PythonProcessMember(ProcessMember):
    """Our client, in a process that can be stopped."""

    def __init__(self, name: str, namesrv: str, home: Path) -> None:
        super().__init__(name, home, [sys.executable, "-m", "tests.interop.group_member", namesrv, GROUP, TOPIC, name])
