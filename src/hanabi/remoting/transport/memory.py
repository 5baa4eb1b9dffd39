"""The share of this process' memory that peers may fill."""

from typing import Final

import msgspec

from hanabi.remoting.config import RemotingConfig

PEERS_PART: Final = 8  # of the memory that there is, for each of the limits that all peers share: an eighth
PEERS_BYTES_MIN: Final = 8 * 1024 * 1024  # twice the largest message


def within_memory(config: RemotingConfig, memory: int) -> RemotingConfig:
    """*config* with limits for all peers together that *memory* bytes allow."""
    share = max(memory // PEERS_PART, PEERS_BYTES_MIN)
    return msgspec.structs.replace(
        config,
        read_buffer_total_bytes_max=min(config.read_buffer_total_bytes_max, share),
        write_buffer_total_bytes_max=min(config.write_buffer_total_bytes_max, share),
        answers_total_bytes_max=min(config.answers_total_bytes_max, share),
    )
