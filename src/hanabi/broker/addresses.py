"""Host that the broker advertises, and the address that its messages carry.

The listening address and the advertised one differ: a container listens on 0.0.0.0 and is reached by a name. Without
`brokerIP1` the choice is Apache's (RemotingUtil.getLocalAddress, 4.9.8), but only if the broker listens on all
addresses; a broker that listens on one address is reached there.
"""

import ipaddress
import logging
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - to be compared with
_LOOPBACK: Final = "127.0.0.1"
_SIOCGIFADDR: Final = 0x8915
_INTERFACE_NAME_BYTES_MAX: Final = 15


def advertised_host(configured: str, listened_on: str) -> str:
    """Return the host to advertise: the *configured* one, else the listening address, else the machine's address."""
    if configured:
        return configured
    return local_address() if listened_on in _ANY else listened_on


def pick_address(addresses: Iterable[str]) -> str | None:
    """Return the best of a machine's addresses, as Apache: IPv4 that is not 192.168, the last IPv4, the first IPv6."""
    outside = [address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_loopback]
    v4 = [address for address in outside if ":" not in address]
    if v4:
        return next((address for address in v4 if not address.startswith(("127.0", "192.168"))), v4[-1])
    return outside[0] if outside else None


def local_address() -> str:
    """Return this machine's address; the loopback if it has no other."""
    return pick_address(_interface_addresses()) or pick_address(_addresses_of_name()) or _LOOPBACK


def _interface_addresses() -> list[str]:
    """Return the IPv4 address of each interface that is not a bridge; empty if the system does not list them."""
    if not sys.platform.startswith("linux"):
        return []
    import fcntl

    addresses: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            if Path("/sys/class/net", name, "bridge").exists():
                continue
            try:
                request = struct.pack("256s", name.encode()[:_INTERFACE_NAME_BYTES_MAX])
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
            except OSError:  # it has no address
                continue
            addresses.append(socket.inet_ntoa(answer[20:24]))
    return addresses


def _addresses_of_name() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def in_figures(host: str) -> str:
    """Return the address that stored messages and message ids carry for *host*. A name is looked up, which blocks."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        found = [str(address[0]) for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        fallback = local_address()
        logger.warning("%s has no address (%s): ids of messages carry %s instead", host, error, fallback)
        return fallback
    return next((address for address in found if ":" not in address), found[0]).partition("%")[0]
