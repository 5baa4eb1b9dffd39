"""Clients that can be measured here, and how each is started. Each has an interpreter of its own in `benches/out/`."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benches.c_programs import OUT
from benches.client_servers import ClientSite
from tests.interop.jars import ADMIN_4, JavaUnavailable, classpath, versions

PURE_SOURCE: Final = "HANABI_BENCH_PYROCKETMQ"  # the folder of a checkout: it is on no package index
INSTALL_TIMEOUT_S: Final = 300

OURS: Final = "Hanabi"
JAVA: Final = f"Apache's Java client {versions(ADMIN_4)}"


@dataclass(frozen=True)
class Peer:
    """A client in Python: the module that drives it, what to install for it, and what to tell it."""

    name: str
    module: str
    packages: tuple[str, ...]
    check: str  # what must be possible to import, in the same words
    arguments: Callable[[ClientSite], list[str]] = field(default=lambda site: [site.namesrv])

    @property
    def folder(self) -> Path:
        return OUT / f"peer-{self.module}"

    def interpreter(self) -> Path:
        """Return the interpreter of its environment, made when it is first needed."""
        python = self.folder / "bin" / "python"
        ready, wanted = self.folder / "ready", "\n".join(self.packages)
        if not ready.exists() or ready.read_text() != wanted:
            venv.create(self.folder, with_pip=True, clear=True)
            pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *self.packages]
            subprocess.run(pip, check=True, timeout=INSTALL_TIMEOUT_S)
            subprocess.run([python, "-c", self.check], check=True, capture_output=True, timeout=60)
            ready.write_text(wanted)
        return python


def peers() -> list[Peer]:
    """Return the other Python clients, as far as it is known where to find them."""
    known = [
        Peer("rocketmq 0.4.4 (Apache's C++ client)", "native_client", ("rocketmq==0.4.4",), "import rocketmq.client"),
        Peer(
            "rocketmq-python-client 5.1.2 (gRPC)",
            "grpc_client",
            ("rocketmq-python-client==5.1.2",),
            "import rocketmq",
            lambda site: [site.proxy],
        ),
        Peer(
            "pyrocketmq 0.3.4 (a JVM in the process)",
            "jpype_client",
            ("pyrocketmq==0.3.4", "JPype1"),
            "import jpype; jpype.getDefaultJVMPath()",
            lambda site: [site.namesrv, classpath(ADMIN_4)],
        ),
    ]
    if source := os.environ.get(PURE_SOURCE):
        packages = ("aiofiles", "python-statemachine")
        check = f"import sys; sys.path.insert(0, {str(Path(source, 'src'))!r}); import pyrocketmq.producer"
        known.append(Peer("pyrocketmq of tt67wq (pure Python)", "pure_client", packages, check))
    return known


def command(name: str, site: ClientSite, home: Path) -> list[str]:
    """Return the command line of the client of this name."""
    if name == OURS:
        return [sys.executable, "-m", "benches.peers.hanabi_client", site.namesrv]
    if name == JAVA:
        return [
            "java",
            f"-Duser.home={home}",
            "-cp",
            f"{OUT / 'java'}:{classpath(ADMIN_4)}",
            "SyncSender",
            site.namesrv,
        ]
    peer = next(each for each in peers() if each.name == name)
    return [str(peer.interpreter()), "-m", f"benches.peers.{peer.module}", *peer.arguments(site)]


def python_path(name: str) -> str:
    """Return where the program of this name finds its modules, beside its environment."""
    root = str(Path(__file__).parent.parent)
    source = os.environ.get(PURE_SOURCE)
    return f"{root}:{Path(source, 'src')}" if source and "tt67wq" in name else root


def clients_here() -> tuple[list[str], list[str]]:
    """Return the names of the clients that can be measured here, and a sentence about each that cannot."""
    names, missing = [OURS], []
    for peer in peers():
        try:
            peer.interpreter()
            names.append(peer.name)
        except (OSError, subprocess.SubprocessError) as error:
            missing.append(f"{peer.name} was not measured: {error}.")
    if not os.environ.get(PURE_SOURCE):
        missing.append(f"pyrocketmq of GitHub's tt67wq is on no package index: {PURE_SOURCE} may name its folder.")
    missing.append("rocketmq-client-python 2.0.0 cannot be imported: its wheel has no librocketmq.")
    try:
        source = Path(__file__).parent / "java" / "SyncSender.java"
        (OUT / "java").mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-nowarn", "-cp", classpath(ADMIN_4), "-d", OUT / "java", source], check=True)
        names.append(JAVA)
    except (OSError, JavaUnavailable, subprocess.CalledProcessError) as error:
        missing.append(f"{JAVA} was not measured: {error}.")
    return names, missing
