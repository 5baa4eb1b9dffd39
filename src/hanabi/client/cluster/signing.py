"""Request signatures: prove the client's identity by a secret that is not sent.

HMAC-SHA1 with the secret over the values of all header fields in the order of their names, then the body. Pure; agrees
with Java's AclClientRPCHook, AclUtils.combineRequestContent and AclSigner, and with PlainAccessValidator.
"""

import base64
import hmac
from collections.abc import Mapping
from typing import Final

from hanabi.client.config import Credentials

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
# Optional mark of QUERY_MESSAGE. Brokers of 4.x check a signature without it and those of 5.x one with it, so signed
# requests omit it.
_DISPUTED: Final = "_UNIQUE_KEY_QUERY"


def sign(fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return *fields* with the access key, the token if there is one, and the signature over all of it and *body*."""
    signed = {**fields, ACCESS_KEY: credentials.access_key}
    signed.pop(_DISPUTED, None)
    if credentials.token is not None:
        signed[SECURITY_TOKEN] = credentials.token
    signed[SIGNATURE] = signature(signed, body, credentials.secret_key)
    return signed


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the value of the field Signature: base64 of the digest."""
    values = "".join(value for name, value in sorted(fields.items()) if name != SIGNATURE)
    return base64.b64encode(hmac.digest(secret_key.encode(), values.encode() + body, "sha1")).decode()
