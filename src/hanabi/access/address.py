"""Source addresses of requests, in one spelling."""

from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address


def source_address(host: str) -> Address | None:
    """Return the address of a peer; None if *host* is no IP address, which no pattern matches.

    An IPv4 address that arrives by an IPv6 socket counts as what it is.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
