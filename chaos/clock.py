"""A time of day that can be set for one process: a small library that is preloaded, and a file that says by how much.

The library is compiled when it is first needed. Where it cannot be (no compiler, or the loader does not preload), there
is a sentence that says so, and clocks are left alone.
"""

import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shifted_clock.c")
_NANOSECONDS: Final = 1_000_000_000
_PROBE_SHIFT_S: Final = 86_400.0


class ClockUnavailable(Exception):
    """Clocks cannot be set here; the text says why."""


class ShiftedClock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(bytes(8))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK_FILE": str(self._file)}

    def shift(self, seconds: float) -> None:
        """From now on their time of day is so many *seconds* beside the machine's."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", int(seconds * _NANOSECONDS)))


def compile_library(folder: Path) -> Path:
    """Return the library, made in *folder* and tried on a Python process."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ClockUnavailable("there is no C compiler (cc or gcc) for the library that sets clocks")
    library = folder / "shifted_clock.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", str(library), str(SOURCE), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise ClockUnavailable(f"{SOURCE.name} could not be compiled: {made.stderr.strip()}")
    clock = ShiftedClock(library, folder / "clock-probe")
    clock.shift(_PROBE_SHIFT_S)
    probe = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env=clock.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    if abs(float(probe.stdout) - time.time() - _PROBE_SHIFT_S) > _PROBE_SHIFT_S / 2:
        raise ClockUnavailable("the preloaded library has no effect on this Python's clock")
    return library
