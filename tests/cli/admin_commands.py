"""Running administration commands: what they answer, in JSON or for people.

In this process, which is ten times as quick as a new one for each; how a process ends and what signals do to it is
tested once for all of them, in `test_topic.py`.
"""

import io
import json
import logging
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

import hanabi
from hanabi.cli.main import main
from tests.cli.commands import refused
from tests.cli.shapes import check, shape_of
from tests.serving import Serving


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, here."""
    out, err = io.StringIO(), io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["hanabi", *arguments])
        for name in ("NAMESRV_ADDR", "HANABI_ACCESS_KEY", "HANABI_SECRET_KEY", "HANABI_CREDENTIALS", "HANABI_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setenv("HANABI_CONFIG", os.environ.get("HANABI_CONFIG", os.devnull))
        try:
            main()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def said(cluster: Serving, *arguments: str) -> str:
    """Return what a command that works writes."""
    result = run(*arguments, "-n", cluster.namesrv)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def answer(cluster: Serving, *arguments: str) -> Any:
    """Return the JSON that a command that works writes; it is of the shape that is documented."""
    text = said(cluster, *arguments, "--json")
    check(shape_of(arguments), text)
    return json.loads(text)


def answers(cluster: Serving, *arguments: str) -> list[Any]:
    """Answer as `answer` does, for commands that write a JSON object a line."""
    text = said(cluster, *arguments, "--json")
    check(shape_of(arguments), text)
    return [json.loads(line) for line in text.splitlines()]


def refusal(cluster: Serving, code: int, *arguments: str) -> str:
    """Return the one sentence of a command that does not work."""
    return refused(run(*arguments, "-n", cluster.namesrv), code)


def send(cluster: Serving, *messages: hanabi.Message) -> list[hanabi.SendResult]:
    """Send messages, one after another, and how each was sent."""
    with hanabi.Producer("admin_tests", namesrv=cluster.namesrv) as producer:
        return [producer.send(message) for message in messages]
