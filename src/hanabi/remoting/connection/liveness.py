"""Signs of life of a peer that only the system knows: TCP keepalive, acknowledged bytes, bytes that wait to be read.

A peer whose machine lost power, or whose connection a firewall forgot, closes nothing. Keepalive and a limit on
unacknowledged bytes end such a connection with an error after about as long as an idle one is kept.
"""

import select
import socket
from typing import Any, Final

PROBES: Final = 5


def watch(own: Any, seconds: float) -> None:
    """Let the system end *own*, a socket or an event loop's view of one, when its peer is dead for *seconds*.

    The first probe leaves after half of that time in silence. What a platform does not have is left out.
    """
    whole = max(2, round(seconds))
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", whole // 2),
        ("TCP_KEEPINTVL", max(1, whole // (2 * PROBES))),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", whole * 1_000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            own.setsockopt(socket.IPPROTO_TCP, option, value)


def has_unread(own: Any) -> bool:
    """Return whether bytes of the peer, or its EOF, wait in *own* for the event loop to read them."""
    if hasattr(select, "poll"):  # not on Windows; `select` itself refuses descriptors over 1,023
        poll = select.poll()
        poll.register(own.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([own.fileno()], [], [], 0)[0])
