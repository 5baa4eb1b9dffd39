"""The event loop: uvloop where it is installed, asyncio's own where not."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's factory if it is installed and HANABI_LOOP is not "asyncio"."""
    if os.environ.get("HANABI_LOOP") != "asyncio":
        try:
            import uvloop
        except ImportError:  # no wheel for this platform: slower, but the same
            pass
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop


def writes_are_cheap(loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> bool:
    """Return whether a write at once costs less than a coalesced one at the end of the turn.

    uvloop's do, except with TLS: threads that wait for their answers were served a tenth faster that way.
    """
    return type(loop).__module__.partition(".")[0] == "uvloop" and transport.get_extra_info("sslcontext") is None


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* to its end on a loop of its own; the counterpart of `asyncio.run`."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
