"""Text of hosts and of the message ids made from them.

A batch has many messages and few hosts, so each host is formatted once. IPv6 hosts are longer than their neighbours and
take a slower path.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hanabi.spark.decode.fields import Mask, Positions, field_at
from hanabi.spark.decode.layout import Layout
from hanabi.wire.message.hosts import V4_BYTES, V6_BYTES, decode_host

_BORN_HOST_AT: Final = 48
_STORE_HOST_AT: Final = 64  # if the born host is IPv4
_LOG_OFFSET_AT: Final = 28
_DIGITS: Final = np.array([int.from_bytes(b"%02X" % byte, "little") for byte in range(256)], "<u2")


def born_hosts(layout: Layout) -> pa.Array:
    """Return the born host of each record, such as `127.0.0.1:4711` or `[::1]:4711`."""
    if layout.is_v4:
        return _written_out(layout.field(_BORN_HOST_AT, "<u8"))
    return _addresses(layout, layout.starts + _BORN_HOST_AT, layout.family & 1 != 0)


def store_hosts(layout: Layout) -> pa.Array:
    if layout.is_v4:
        return _written_out(layout.field(_STORE_HOST_AT, "<u8"))
    return _addresses(layout, layout.store_timestamp_at + 8, layout.family & 2 != 0)


def offset_message_ids(layout: Layout) -> pa.Array:
    """Return the broker's own id of each message: its host and its log offset in hexadecimal digits."""
    hosts_at = layout.store_timestamp_at + 8
    return _by_length(layout.family & 2 != 0, lambda rows, size: _offset_ids(layout, hosts_at, rows, size))


def _offset_ids(layout: Layout, hosts_at: Positions, rows: Mask, host_bytes: int) -> pa.Array:
    word = 8 if host_bytes % 8 == 0 else 4
    words = [hosts_at[rows] + at for at in range(0, host_bytes, word)]
    words += [layout.starts[rows] + _LOG_OFFSET_AT + at for at in range(0, 8, word)]
    raw = np.empty((len(words[0]), len(words)), f"u{word}")
    for column, positions in enumerate(words):
        raw[:, column] = field_at(layout.data, positions, raw.dtype.str)
    text = _DIGITS[raw.view(np.uint8)]
    offsets = np.arange(0, text.nbytes + 1, text.strides[0] if text.size else 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _addresses(layout: Layout, hosts_at: Positions, is_v6: Mask) -> pa.Array:
    def texts(rows: Mask, host_bytes: int) -> pa.Array:
        if host_bytes == V4_BYTES:
            return _written_out(field_at(layout.data, hosts_at[rows], "<u8"))
        view = memoryview(layout.buffer)
        raw = [bytes(view[at : at + host_bytes]) for at in hosts_at[rows].tolist()]
        return pa.array([str(decode_host(each)) for each in raw], pa.string())

    return _by_length(is_v6, texts)


def _written_out(hosts: NDArray[np.uint64]) -> pa.Array:
    """Format IPv4 hosts, whose eight bytes were read as one number."""
    coded = pa.array(hosts).dictionary_encode()
    raw = [int(host).to_bytes(V4_BYTES, "little") for host in coded.dictionary.to_pylist()]
    return pa.array([str(decode_host(each)) for each in raw], pa.string()).take(coded.indices)


def _by_length(is_v6: Mask, make: Callable[[Mask, int], pa.Array]) -> pa.Array:
    """Apply *make* to the rows with an IPv4 host and to those with an IPv6 host; keep the order of the rows."""
    if not is_v6.any():
        return make(~is_v6, V4_BYTES)
    if is_v6.all():
        return make(is_v6, V6_BYTES)
    both = pa.concat_arrays([make(~is_v6, V4_BYTES), make(is_v6, V6_BYTES)])
    place = np.where(is_v6, (~is_v6).sum() + np.cumsum(is_v6), np.cumsum(~is_v6)) - 1
    return both.take(pa.array(place))
