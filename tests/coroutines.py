"""Coroutine tests: `async def test_...` runs on an event loop of its own, the kind that the servers use.

A test also fails for an error that no code handled (a task that failed unseen, a callback that raised) and for a task
that is still there at its end.
"""

import asyncio
import gc
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from hanabi.remoting.loop import loop_factory

NewLoop = Callable[[], asyncio.AbstractEventLoop]
NEW_LOOP: Final = "new_loop"  # the parameter that chooses another loop, where a test has it


def run_coroutine_test(item: pytest.Function) -> bool | None:
    """Run *item* if it is a coroutine function; return None for pytest to run any other."""
    if not inspect.iscoroutinefunction(item.obj):
        return None
    arguments = {name: item.funcargs[name] for name in inspect.signature(item.obj).parameters}
    new_loop: Any = item.funcargs.get(NEW_LOOP, loop_factory())
    run_strictly(item.obj(**arguments), new_loop)
    return True


def run_strictly(test: Coroutine[Any, Any, None], new_loop: NewLoop) -> None:
    """Run *test* to its end; fail with the first error that no code handled, and for tasks that are left."""
    unhandled: list[dict[str, Any]] = []
    left: list[str] = []

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        unhandled.append(context)
        loop.default_exception_handler(context)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(note)
        await test
        await asyncio.sleep(0)  # tasks that the test has cancelled end now
        left.extend(repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task())

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    gc.collect(1)  # a task that failed unseen tells so when it is freed
    for context in unhandled:
        raise AssertionError(f"unhandled: {context['message']}") from context.get("exception")
    assert left == [], "tasks are left over: cancel and await them"
