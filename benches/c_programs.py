"""The small C programs of the benchmarks, compiled when they are first needed."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "loadgen"
OUT = Path(__file__).parent / "out"


@cache
def compiled(name: str) -> Path:
    """Return the program made of `loadgen/NAME.c`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("the benchmark needs a C compiler (cc or gcc) for its load generators")
    OUT.mkdir(exist_ok=True)
    program = OUT / name
    subprocess.run([compiler, "-O2", "-w", "-D_GNU_SOURCE", "-o", str(program), str(FOLDER / f"{name}.c")], check=True)
    return program
