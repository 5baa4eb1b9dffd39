"""Limits on the bodies of administrative requests and on the queues of a topic.

Any peer can send such requests: decoding JSON takes a microsecond every few bytes, and each queue costs a line in every
answer about its topic.
"""

from typing import Final

NO_BODY_BYTES_MAX: Final = 4 * 1024  # RocketMQ sends none; a short one is ignored
SETTINGS_BYTES_MAX: Final = 64 * 1024
ONE_BYTES_MAX: Final = 256 * 1024  # one group's settings
LIST_BYTES_MAX: Final = 4 * 1024 * 1024  # many topics or groups at once

QUEUES_MAX: Final = 16_384
ENTRIES_MAX: Final = 4_096  # of a consume queue in one answer
