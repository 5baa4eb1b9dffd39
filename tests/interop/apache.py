"""Starts Apache RocketMQ's own name server and broker, small and quick, with every file below one folder."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop.jars import CONTROLLER_5, SERVERS_4, classpath
from tests.interop.probe import knows_broker
from tests.interop.processes import ServerProcess, free_port

# A JVM that starts quickly matters more here than one that runs fast.
QUICK_START = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# Without its timers a 5.x broker cannot delete a topic: a null pointer. Its wheel is 40 MB; to flush it every second,
# as it does when not told otherwise, costs a quarter of a core.
TIMERS = {"timerWheelEnable": "true", "timerFlushIntervalMs": "20000"}

# Clients in such a JVM, a broker's own among them, speak TLS only; they do not check whose certificate it is.
WITH_TLS = (*QUICK_START, "-Dtls.enable=true")

# Quick to make, and no reason to refuse messages on a disk that is used by others too.
SMALL_FILES = {
    "mappedFileSizeCommitLog": 1 << 22,
    "mappedFileSizeConsumeQueue": 20 * 1000,
    "maxIndexNum": 1000,
    "maxHashSlotNum": 200,
    "diskMaxUsedSpaceRatio": 98,
}

# Without these a 4.9 broker on Java 17 cannot unmap its files, and its shutdown stops half way.
_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref")
)

# 4.9 configures logback from this file of its home; 5.x brings its own configuration, which writes below user.home.
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/logs/rocketmqlogs/all.log</file>
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


def java(home: Path, class_path: str, main: str, *arguments: str, jvm: Sequence[str] = QUICK_START) -> list[str]:
    """Return the command line of a Java program that keeps to *home*."""
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for part in ("namesrv", "broker", "tools"):
        (conf / f"logback_{part}.xml").write_text(_LOGBACK)
    own = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", f"-Djava.io.tmpdir={home}"]
    return ["java", *jvm, *own, *_OPENED, "-cp", class_path, main, *arguments]


def java_environment() -> dict[str, str]:
    """Ours, without what would lead Apache's programs to another installation."""
    strange = ("ROCKETMQ_HOME", "NAMESRV_ADDR", "JAVA_TOOL_OPTIONS")
    return {name: value for name, value in os.environ.items() if name not in strange}


class ApacheNameServer:
    """Apache's name server."""

    def __init__(self, home: Path, *, jvm: Sequence[str] = QUICK_START) -> None:
        self.home = home
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        config = properties(home / "namesrv.conf", {"listenPort": port})
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java(home, classpath(SERVERS_4), main, "-c", str(config), jvm=jvm)
        self.process = ServerProcess("Apache's name server", command, home / "console.log", java_environment())

    def wait_ready(self) -> None:
        self.process.wait_for_line("The Name Server boot success")


class ApacheController:
    """Apache's controller of 5.3, alone in its group."""

    def __init__(self, home: Path) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": home / "store",
            "mappedFileSize": 1 << 22,
        }
        config = properties(home / "controller.conf", settings)
        main = "org.apache.rocketmq.controller.ControllerStartup"
        command = java(home, classpath(CONTROLLER_5), main, "-c", str(config))
        self.process = ServerProcess("Apache's controller", command, home / "console.log", java_environment())

    def wait_ready(self) -> None:
        self.process.wait_for_line("The Controller Server boot success")


class ApacheBroker:
    """One of Apache's brokers, a master. Its store is `store` in its home."""

    def __init__(
        self,
        home: Path,
        jar_set: str,
        *,
        name: str,
        cluster: str,
        namesrv: str | None,
        jvm: Sequence[str] = QUICK_START,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """*settings* are more of its broker.conf; without *namesrv* only those find it who know its address."""
        self.home, self.name, self.namesrv = home, name, namesrv
        # Beside its own port it takes the second below for its fast lane and the next for its slaves.
        port = free_port(beside=(-2, 1))
        self.address = f"127.0.0.1:{port}"
        config = properties(
            home / "broker.conf",
            {
                "brokerClusterName": cluster,
                "brokerName": name,
                "brokerId": 0,
                "brokerIP1": "127.0.0.1",
                "listenPort": port,
                **({"namesrvAddr": namesrv} if namesrv else {}),
                "storePathRootDir": home / "store",
                "storePathCommitLog": home / "store" / "commitlog",
                **SMALL_FILES,
                "mappedFileSizeTimerLog": 1 << 20,
                "timerWheelEnable": "false",  # turning it costs an idle 5.x broker a quarter of a core
                # Its first check, after a minute, makes a topic: on one site before a command, on the other after it.
                "transactionCheckInterval": 3_600_000,
                **(settings or {}),
            },
        )
        main = "org.apache.rocketmq.broker.BrokerStartup"
        command = java(home, classpath(jar_set), main, "-c", str(config), jvm=jvm)
        self.command = command
        self.process = ServerProcess(f"Apache's {name}", command, home / "console.log", java_environment())

    def start_again(self) -> None:
        """Start again after a kill: with the same files, at the same address."""
        self.process = ServerProcess(self.process.name, self.command, self.process.log, java_environment())

    def wait_ready(self) -> None:
        """Wait until it serves and its name server, if it has one, knows it."""
        self.process.wait_for_line(f"The broker[{self.name}, {self.address}] boot success")
        if namesrv := self.namesrv:
            self.process.wait_until(lambda: knows_broker(namesrv, self.name), f"register with {namesrv}")

    def logged(self) -> list[str]:
        """Return every line of its logs."""
        logs = sorted(self.home.glob("logs/rocketmqlogs/**/*.log"))
        return [line for log in logs for line in log.read_text(errors="replace").splitlines()]

    def complaints(self) -> list[str]:
        """Return what it logged about its name server as a warning or an error."""
        about = ("register", "name server", "nameserver", "namesrv", "name_server")
        serious = [line for line in self.logged() if " WARN " in line or " ERROR " in line]
        return [line for line in serious if any(word in line.lower() for word in (*about, str(self.namesrv)))]


def properties(path: Path, values: Mapping[str, object]) -> Path:
    """Return a file of settings, as the Java servers read them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path
