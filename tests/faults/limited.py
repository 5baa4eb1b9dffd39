"""A launcher that limits itself and becomes another program: python limited.py LIMITS COMMAND.

LIMITS is JSON: {"rlimits": {"RLIMIT_NOFILE": 256}, "cgroups": [files that take our process id]}.
"""

import json
import os
import resource
import sys
from pathlib import Path


def main(limits: str, command: list[str]) -> None:
    chosen = json.loads(limits)
    for procs in chosen["cgroups"]:
        Path(procs).write_text(str(os.getpid()))
    for name, value in chosen["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
