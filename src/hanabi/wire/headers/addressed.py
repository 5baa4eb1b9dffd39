"""The base of headers that name the broker they are meant for.

Agrees with Java's RpcRequestHeader. A broker that answers the request itself needs none of it; it is for a proxy, or
for another broker that forwards the request. Of 5.x's further marks (`ns`, `nsd`, `oway`, `lo`) we read none.
"""

from msgspec import field

from hanabi.wire.header import Header


class AddressedHeader(Header, frozen=True, kw_only=True):
    """A header that may name the broker that shall answer."""

    target_broker: str | None = field(default=None, name="bname")
