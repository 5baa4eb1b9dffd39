"""Address of this machine for client ids and message ids. Same purpose as RemotingUtil.getLocalAddress, by a different
method: any address that identifies this machine will do, and nothing is ever sent to it.
"""

import socket
from functools import cache
from typing import Final

LOOPBACK: Final = "127.0.0.1"
# Of RFC 5737 and RFC 3849: reserved for documentation. A datagram socket that "connects" sends nothing, but the system
# picks the address it would send from.
_REMOTES: Final = ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9)))


@cache
def local_address() -> str:
    """Return the address of outgoing traffic of this machine; the loopback if there is no route."""
    for family, remote in _REMOTES:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect(remote)
                return str(asking.getsockname()[0])
        except OSError:  # no route, or no such family
            continue
    return LOOPBACK
