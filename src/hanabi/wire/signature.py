"""Signatures of requests: proof of an identity by a secret that is not sent.

HMAC-SHA1 under the secret over the values of all header fields in the order of their names, without separators, then
the body; as base64 in the field Signature. Clients make them and servers check them. Agrees with Java's
AclClientRPCHook, AclUtils.combineRequestContent and AclSigner, which are the same in 4.9 and 5.x.
"""

import base64
import hmac
from collections.abc import Iterable, Mapping
from typing import Final

from hanabi.wire.codes import RequestCode

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
# Optional mark of QUERY_MESSAGE. Clients to 4.9.3 add it after they sign, later ones before.
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes under a signature: all values but the signature itself, in the order of their names."""
    return "".join(value for name, value in sorted(fields.items()) if name != SIGNATURE).encode() + body


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the value of the field Signature: base64 of the digest."""
    return base64.b64encode(hmac.digest(secret_key.encode(), signed_content(fields, body), "sha1")).decode()


def is_signed_by(code: int, fields: Mapping[str, str], body: bytes, secrets: Iterable[bytes]) -> bool:
    """Return whether the request is signed with one of *secrets*. The time does not depend on which byte differs.

    A key query may be signed with its mark or without it.
    """
    given = fields.get(SIGNATURE, "").encode()
    contents = [signed_content(fields, body)]
    if code == RequestCode.QUERY_MESSAGE and UNIQUE_KEY_QUERY in fields:
        unmarked = {name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}
        contents.append(signed_content(unmarked, body))
    matches = False
    for secret in secrets:
        for content in contents:
            expected = base64.b64encode(hmac.digest(secret, content, "sha1"))
            matches |= hmac.compare_digest(expected, given)
    return matches
