"""Quotas as values, and as text in settings. Pure.

    accountQuotas={"orders-app": {"requestsPerSecond": 1000, "bytesInPerSecond": 10485760}, "*": {"connections": 50}}

The name * is each account that is not named. A limit that is not given is none.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from hanabi.errors import ConfigError
from hanabi.wire.settings_text import shortened

KEY: Final = "accountQuotas"
EACH: Final = "*"
ACCOUNTS_MAX: Final = 10_000
_MAX: Final = 2**53

Rate = Annotated[int, msgspec.Meta(ge=1, le=_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=_MAX)]


class Quota(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one account. Bytes are those of header fields and bodies."""

    requests_per_second: Rate | None = None
    bytes_in_per_second: Rate | None = None
    bytes_out_per_second: Rate | None = None
    connections: Number | None = None
    topics: Number | None = None  # that it may create


LIMITS: Final = {item.encode_name: item.name for item in msgspec.structs.fields(Quota)}
_decoder: Final = msgspec.json.Decoder(dict[str, Quota])


def read_quotas(text: str) -> Mapping[str, Quota]:
    """Return the quotas in a setting by account; raise ConfigError that says what is wrong."""
    if not text.strip():
        return {}
    try:
        quotas = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ConfigError(f"{KEY} = {shortened(text)}: {error}; known limits are {', '.join(LIMITS)}") from None
    if len(quotas) > ACCOUNTS_MAX:
        raise ConfigError(f"{KEY}: {len(quotas)} accounts, at most {ACCOUNTS_MAX}")
    if "" in quotas:
        raise ConfigError(f"{KEY}: an account without a name")
    return quotas


def write_quotas(quotas: Mapping[str, Quota]) -> str:
    """Return *quotas* as the text of a setting, in the order of their accounts."""
    return msgspec.json.encode(dict(sorted(quotas.items()))).decode() if quotas else ""
