"""A Jupyter kernel that runs one block after another as cells of a notebook. Talks to `running.py`.

A block that uses `spark` finds a local session of that name. What cells print goes to stderr.
"""

import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import nbclient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbformat.v4 import new_code_cell, new_notebook

SECONDS = 180
SPARK = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
import python_session
spark = python_session.spark_session()
"""


class ThisPython(KernelSpecManager):
    """The kernel of the Python that runs this program, whichever kernels are installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name=kernel_name, language="python")


class Notebook:
    """A notebook that grows at its end."""

    def __init__(self) -> None:
        self._notebook = new_notebook()  # type: ignore[no-untyped-call]
        manager = AsyncKernelManager(kernel_spec_manager=ThisPython())
        self.client = nbclient.NotebookClient(self._notebook, km=manager, timeout=SECONDS)

    def run(self, text: str) -> None:
        """Run one more cell; what it raises is a CellExecutionError."""
        cell: Any = new_code_cell(text)  # type: ignore[no-untyped-call]
        self._notebook.cells.append(cell)
        try:
            self.client.execute_cell(cell, len(self._notebook.cells) - 1)
        finally:
            sys.stderr.write("".join(output.get("text", "") for output in cell.outputs))


def main() -> None:
    os.environ["IPYTHONDIR"] = os.environ["JUPYTER_RUNTIME_DIR"] = str(Path.cwd() / ".jupyter")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    notebook, has_spark = Notebook(), False
    with notebook.client.setup_kernel():
        for line in sys.stdin:
            block = json.loads(line)
            try:
                if not has_spark and re.search(r"\bspark\.", block["text"]):
                    notebook.run(SPARK)
                    has_spark = True
                notebook.run(block["text"])
            except BaseException:  # noqa: BLE001 - told to the test
                traceback.print_exc()
                print("it failed", file=answers, flush=True)
            else:
                print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
