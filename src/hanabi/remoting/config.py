"""Limits of the transport, one frozen value; each has RocketMQ's figure where RocketMQ has one."""

import msgspec

from hanabi.wire.command import HEADER_BYTES_MAX
from hanabi.wire.frame import FRAME_BYTES_MAX


class RemotingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one server or connector. Everything that could grow has a bound here."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    header_bytes_max: int = HEADER_BYTES_MAX
    connections_max: int = 10_000  # or fewer, if the system gives us fewer descriptors
    turn_seconds_max: float = 0.002  # of work for one connection, then other connections have their turn
    pending_requests_max: int = 65_535  # that wait for their answer, on one connection, in each direction
    waiting_tasks_max: int = 8_192  # of those, for which a coroutine waits on our side: some kilobytes each
    read_buffer_total_bytes_max: int = 256 * 1024 * 1024  # of incomplete frames, on all: the fullest is dropped
    write_buffer_bytes_max: int = 4 * 1024 * 1024  # above it the peer is not read from until it reads again
    write_buffer_total_bytes_max: int = 256 * 1024 * 1024  # on all connections together: the fullest are dropped
    answers_total_bytes_max: int = 64 * 1024 * 1024  # of large answers being made, on all: the rest waits
    stalled_peer_seconds: float = 30.0  # a peer that stays paused this long is dropped
    idle_seconds: float = 120.0  # without a byte from the peer
    silent_peer_seconds: float = 2.5  # a server that leaves requests unanswered, and sends nothing else, is dropped
    frame_seconds_max: float = 120.0  # from the first byte of a frame to its last: a byte a second is not a peer
    connect_timeout_seconds: float = 3.0
    tls_handshake_seconds: float = 10.0
