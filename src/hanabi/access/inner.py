"""The identity of a server itself, for its requests to other servers, such as those of a slave to its master."""

from collections.abc import Mapping
from typing import NamedTuple

from hanabi.wire.header import Header, header_fields
from hanabi.wire.signature import ACCESS_KEY, SIGNATURE, signature


class InnerCredentials(NamedTuple):
    """An account or user, and its secret, which is never shown."""

    access_key: str
    secret_key: str

    def sign(self, header: Header | Mapping[str, str] | None, body: bytes) -> Mapping[str, str]:
        """Return the fields of a request with the identity and its signature."""
        given = header_fields(header) if isinstance(header, Header) else header or {}
        fields = {**given, ACCESS_KEY: self.access_key}
        return {**fields, SIGNATURE: signature(fields, body, self.secret_key)}

    def __repr__(self) -> str:
        return f"InnerCredentials({self.access_key!r})"
