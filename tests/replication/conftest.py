"""Tests with sockets run on both event loops."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the loop that a coroutine test runs on."""
    factory: Callable[[], asyncio.AbstractEventLoop] = request.param
    return factory
