"""Settings of simple consumers: frozen values, checked once, with the limits of POP."""

from typing import Final

import msgspec

from hanabi.client.option_types import check_types
from hanabi.errors import ConfigError

BATCH_MAX: Final = 32  # of Apache's brokers


class SimpleConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one simple consumer.

    `start_from` says where a group starts in a queue for which it has no offset yet: "first" (all stored messages) or
    "last" (only new messages; of a young queue all). With `ordered` the messages of a queue come in order: the next
    ones only when those before are acknowledged, or visible again.
    """

    batch: int = 16  # most messages that one `receive` returns
    wait_s: float = 15.0  # how long `receive` waits for a message
    invisible_s: float = 60.0  # how long a received message is hidden from the other members
    start_from: str = "first"
    ordered: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        if not 1 <= self.batch <= BATCH_MAX:
            raise ConfigError(f"batch must be between 1 and {BATCH_MAX}, not {self.batch!r}")
        if self.wait_s < 0:
            raise ConfigError(f"wait_s must not be negative, but is {self.wait_s!r}")
        if not self.invisible_s > 0:
            raise ConfigError(f"invisible_s must be more than 0, not {self.invisible_s!r}")
        if self.start_from not in ("first", "last"):
            raise ConfigError(f'start_from is "first" or "last", not {self.start_from!r}')
