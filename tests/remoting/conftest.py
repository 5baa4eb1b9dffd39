"""Every coroutine test of the transport runs on both event loops."""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Final

import pytest
import uvloop

from tests.coroutines import NEW_LOOP, NewLoop

LOOPS: Final[Mapping[str, NewLoop]] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give coroutine tests both loops in turn."""
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append(NEW_LOOP)
        metafunc.parametrize(NEW_LOOP, list(LOOPS.values()), ids=list(LOOPS))
