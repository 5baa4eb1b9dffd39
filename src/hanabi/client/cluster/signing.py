"""Signed requests: the fields of a request with the client's identity and its proof. Pure."""

from collections.abc import Mapping

from hanabi.client.config import Credentials
from hanabi.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, UNIQUE_KEY_QUERY, signature


def sign(fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return *fields* with the access key, the token if there is one, and the signature over all of it and *body*.

    The mark of a key query is omitted: brokers of 4.x check a signature without it and those of 5.x one with it.
    """
    signed = {**fields, ACCESS_KEY: credentials.access_key}
    signed.pop(UNIQUE_KEY_QUERY, None)
    if credentials.token is not None:
        signed[SECURITY_TOKEN] = credentials.token
    signed[SIGNATURE] = signature(signed, body, credentials.secret_key)
    return signed
