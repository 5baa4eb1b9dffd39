"""An event loop in a thread of its own, for programs that have none: how blocking calls get at the asyncio client.

One a process, started when first needed. A call hands over its coroutine and sleeps on a bare lock until it is done,
which costs less than half of `asyncio.run_coroutine_threadsafe` and its futures.

After a fork the child has no such thread any more: whoever asks for the shared one gets a new one, and what hangs on
the old one says so in an error. The child also lets go of the parent's sockets and of its poll, as both sides would
otherwise share them: a socket that the parent closes would stay open, and tidying up in the child would take sockets
out of the parent's poll.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from hanabi.errors import MQError
from hanabi.remoting.loop import loop_factory

T = TypeVar("T")

EXIT_SECONDS: Final = 3.0  # for all that a program forgot to shut down, together
# Elsewhere a signal wakes whoever waits for a lock; on Windows Ctrl-C is only seen between two waits.
_WAIT_SECONDS: Final = 0.1 if sys.platform == "win32" else -1

logger = logging.getLogger(__name__)


class BlockingCallError(MQError):
    """A blocking call where it cannot be made: inside an event loop, after a fork, or after everything was closed."""
