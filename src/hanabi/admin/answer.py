"""Base class of the values that `Admin` returns: frozen. Their JSON is that of the commands' `--json`, so names
stay.
"""

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all answers. Times are milliseconds since 1970, UTC; 0 means never."""
