"""The address of this machine, as it stands in client ids and message ids. Agrees with RemotingUtil.getLocalAddress in
purpose, not in the way: any address that others could know us by will do, and nothing is ever sent to it.
"""

import socket
from functools import cache
from typing import Final

LOOPBACK: Final = "127.0.0.1"
# Of RFC 5737 and RFC 3849: documentation only, never there. A datagram socket that "connects" sends nothing, but the
# system picks the address it would send from.
_SOMEBODY: Final = ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9)))


@cache
def local_address() -> str:
    """The address by which this machine goes out; the loopback if it has no way out."""
    for family, somebody in _SOMEBODY:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect(somebody)
                return str(asking.getsockname()[0])
        except OSError:  # no route, or no such family
            continue
    return LOOPBACK
