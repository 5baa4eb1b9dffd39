"""Limits of a machine around one process: memory, processes and threads, descriptors.

    with limits(memory_bytes=90 << 20, descriptors=256) as launcher:
        subprocess.Popen([*launcher, *command])

Memory and processes are limited by a cgroup below our own (version 1 or 2), which counts as a container does. Where the
kernel or our rights do not allow one, LimitUnavailable says why; `address_space_bytes` and `descriptors` are rlimits
and work everywhere. RLIMIT_NPROC is not used: it counts all processes of a user, and does not bind root.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

LAUNCHER: Final = Path(__file__).with_name("limited.py")
_MOUNT: Final = Path("/sys/fs/cgroup")
_REMOVE_S: Final = 10.0
_LIMIT_FILES: Final = {
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max", "pids.max"),
}  # of version 1 and of version 2


class LimitUnavailable(Exception):
    """There is no such limit here; the text says why."""


@contextmanager
def limits(
    *,
    memory_bytes: int | None = None,
    processes: int | None = None,
    descriptors: int | None = None,
    address_space_bytes: int | None = None,
) -> Iterator[list[str]]:
    """Yield the launcher to put before a command. End its process before the block ends."""
    rlimits = {"RLIMIT_NOFILE": descriptors, "RLIMIT_AS": address_space_bytes}
    cgroups = {"memory": memory_bytes, "pids": processes}
    with ExitStack() as stack:
        entries = [
            str(stack.enter_context(cgroup(controller, value)).directory / "cgroup.procs")
            for controller, value in cgroups.items()
            if value is not None
        ]
        chosen = {name: value for name, value in rlimits.items() if value is not None}
        yield [sys.executable, str(LAUNCHER), json.dumps({"rlimits": chosen, "cgroups": entries})]


class Cgroup(NamedTuple):
    """A cgroup of one controller, and the file that has its limit."""

    directory: Path
    limit: Path

    @property
    def launcher(self) -> list[str]:
        """Return what to put before a command, so that it runs in this group."""
        entries = [str(self.directory / "cgroup.procs")]
        return [sys.executable, str(LAUNCHER), json.dumps({"rlimits": {}, "cgroups": entries})]

    @property
    def own_memory(self) -> int:
        """Return how many bytes its processes have that belong to no file."""
        lines = (line.split() for line in (self.directory / "memory.stat").read_text().splitlines())
        stat = {name: int(value) for name, value in lines}
        return stat["total_rss"] if "total_rss" in stat else stat["anon"]


@contextmanager
def cgroup(controller: str, value: int, name: str = "") -> Iterator[Cgroup]:
    """Make a cgroup below our own, and remove it at the end. *name* tells those of one process apart."""
    parent, limit_file = _parent(controller, Path("/proc/self/cgroup").read_text())
    group = parent / f"hanabi-test-{os.getpid()}-{controller}{name}"
    try:
        group.mkdir(exist_ok=True)
        (group / limit_file).write_text(str(value))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        raise LimitUnavailable(f"no cgroup with a limit of {controller} below {parent}: {error.strerror}") from error
    try:
        yield Cgroup(group, group / limit_file)
    finally:
        _remove(group)


def _parent(controller: str, own: str) -> tuple[Path, str]:
    """Our own cgroup for *controller*, and the name of the limit there. *own*: the text of /proc/self/cgroup."""
    lines = [line.split(":", 2) for line in own.splitlines()]
    first, second = _LIMIT_FILES[controller]
    for _, controllers, path in lines:
        if controller in controllers.split(","):
            return _MOUNT / controllers / path.lstrip("/"), first
    for hierarchy, _, path in lines:
        group = _MOUNT / path.lstrip("/")
        if hierarchy == "0" and (group / "cgroup.controllers").exists():
            return group, second
    raise LimitUnavailable(f"this kernel has no cgroup controller for {controller}")


def _remove(group: Path) -> None:
    """Remove the cgroup; the kernel needs a moment after the last process has ended."""
    deadline = time.monotonic() + _REMOVE_S
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
