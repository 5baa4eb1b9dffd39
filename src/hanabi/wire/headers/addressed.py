"""Base of the headers that say which broker they are meant for.

Agrees with Java's RpcRequestHeader. Brokers that serve themselves need none of it; it is for what stands between:
a proxy, or another broker that passes the request on. Of 5.x's further marks (`ns`, `nsd`, `oway`, `lo`) we read none.
"""

from msgspec import field

from hanabi.wire.header import Header


class AddressedHeader(Header, frozen=True, kw_only=True):
    """A header that may name the broker that shall answer."""

    target_broker: str | None = field(default=None, name="bname")
