"""Fault injection: how the tests of this directory make a disk, a kernel or a machine fail.

    shim.c, shim.py     system calls that fail or are slow, by rules that the test changes while the process runs
    power_cut.py        the same library records what was synced; a store directory is built from that alone
    limits.py           limits of memory, processes and descriptors, by cgroup or rlimit
    broker_process.py   a real `hanabi serve broker` with any of these around it

    faults = Faults(library, tmp_path / "faults")
    child = subprocess.Popen(command, env={**os.environ, **faults.environment})
    with faults.rule("msync", errno.EIO, path="*/commitlog/*") as rule:    # until the end of the block
        ...
        rule.wait_hit()
    with faults.rule("fdatasync", delay_s=3600):                           # hangs until the end of the block
        ...

The calls that rules know are those of `CALLS`. A failing call does not reach the kernel. Nothing here is a test.
"""

import mmap
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).with_name("shim.c")
CALLS: Final = (
    "fsync",
    "fdatasync",
    "msync",
    "mmap",
    "fallocate",  # and posix_fallocate
    "pthread_create",
    "open",
    "pread",
    "write",  # and pwrite
    "ftruncate",
    "rename",  # its path is the new one
    "unlink",
)
FOREVER: Final = 2**64 - 1
_RULES: Final = 16
_RULE: Final = struct.Struct("=IiQQQQQ464s")
_COUNTS: Final = struct.Struct("=QQ")
_COUNTS_AT: Final = 32
_WAIT_S: Final = 60.0


class ShimUnavailable(Exception):
    """Calls cannot be made to fail here; the text says why."""


class Counts(NamedTuple):
    """Outcome of a rule: calls that matched it, and calls that it delayed or failed."""

    seen: int
    hit: int


class Rule:
    """One rule in force. Its counts stay readable after its end, until its place is used again."""

    def __init__(self, control: mmap.mmap, at: int, text: str) -> None:
        self._control, self._at, self._text = control, at, text

    @property
    def counts(self) -> Counts:
        return Counts(*_COUNTS.unpack_from(self._control, self._at + _COUNTS_AT))

    def wait_hit(self, times: int = 1) -> None:
        """Wait until the rule has hit so many calls."""
        deadline = time.monotonic() + _WAIT_S
        while self.counts.hit < times:
            assert time.monotonic() < deadline, f"{self._text}: {self.counts} after {_WAIT_S:.0f} s"
            time.sleep(0.005)


class Faults:
    """The rules for the processes that are started with `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(bytes(_RULES * _RULE.size))
        with file.open("r+b") as opened:
            self._control = mmap.mmap(opened.fileno(), 0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self._library), "HANABI_FAULTS_CONTROL": str(self._file)}

    @contextmanager
    def rule(
        self, call: str, error: int = 0, *, path: str = "", delay_s: float = 0, after: int = 0, times: int = FOREVER
    ) -> Iterator[Rule]:
        """Let *call* fail with the errno *error*, after *delay_s*, as long as the block runs.

        *path*: only for files that match this pattern (fnmatch, of the whole path). *after*: so many matching calls
        pass first. *times*: so many are hit then. A delay ends when the block does.
        """
        at = self._free()
        number, delay_us = CALLS.index(call) + 1, int(delay_s * 1_000_000)
        packed = _RULE.pack(0, error, delay_us, after, times, 0, 0, path.encode())
        self._control[at : at + _RULE.size] = packed
        self._control[at : at + 4] = struct.pack("=I", number)  # from now on
        try:
            yield Rule(self._control, at, f"{call} of {path or 'anything'}")
        finally:
            self._control[at : at + 4] = bytes(4)

    def _free(self) -> int:
        places = range(0, _RULES * _RULE.size, _RULE.size)
        return next(at for at in places if self._control[at : at + 4] == bytes(4))


def preloaded(*environments: Mapping[str, str]) -> dict[str, str]:
    """Return one environment of several, with the libraries of all of them."""
    libraries = dict.fromkeys(each["LD_PRELOAD"] for each in environments)
    together = {name: value for each in environments for name, value in each.items()}
    return {**together, "LD_PRELOAD": ":".join(libraries)} if libraries else together


def compile_shim(folder: Path) -> Path:
    """Compile the library into *folder*; ShimUnavailable where that is not possible."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ShimUnavailable("there is no C compiler (cc or gcc) for the fault injection library")
    library = folder / "shim.so"
    options = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE"]
    command = [compiler, *options, "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise ShimUnavailable(f"{SOURCE.name} could not be compiled: {made.stderr.strip()}")
    probe = subprocess.run(["true"], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True, check=False)
    if probe.returncode != 0 or probe.stderr:
        raise ShimUnavailable(f"the loader does not preload {SOURCE.name}: {probe.stderr.strip()}")
    return library
