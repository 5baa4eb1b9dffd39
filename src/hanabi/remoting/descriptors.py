"""How many sockets and files the system lets this process have open, where it says so."""

import logging
import sys

if sys.platform != "win32":
    import resource

logger = logging.getLogger(__name__)

DESCRIPTORS_FOR_FILES = 64  # logs, data, listeners, the loop's own: what is not a connection


def raise_descriptor_limit() -> None:
    """Ask for as many as we may have: the usual soft limit of 1024 is for programs that use select()."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # macOS has a hard limit of "any" and refuses it
        logger.info("the limit of %d open files stays as it is: %s", soft, error)


def connections_within(connections_max: int) -> int:
    """*connections_max*, or as many connections as there are descriptors for."""
    if sys.platform == "win32":
        return connections_max
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections_max
    return min(connections_max, max(1, soft - DESCRIPTORS_FOR_FILES))
