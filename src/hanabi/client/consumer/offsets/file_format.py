"""Format of the local offset file: a map with objects as keys, which only fastjson can read and write. Pure.

    {
    →"offsetTable":{{
    →→→"brokerName":"broker-a",
    →→→"queueId":0,
    →→→"topic":"Orders"
    →→}:42,{                          (and so on: an object used as a key starts on the current line)
    →}
    }

Agrees with OffsetSerializeWrapper.toJson(true) of 4.9 and of 5.x, byte for byte except for the order of the queues,
which is Java's own.
"""

from collections.abc import Mapping

import msgspec

from hanabi.message import MessageQueue
from hanabi.wire.bodies.offsets import ResetOffset
from hanabi.wire.fastjson import decode_file

_encode = msgspec.json.Encoder().encode


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Encode *offsets* as the content of the file."""
    if not offsets:
        return b'{\n\t"offsetTable":{}\n}'
    entries = [
        b'{\n\t\t\t"brokerName":%b,\n\t\t\t"queueId":%d,\n\t\t\t"topic":%b\n\t\t}:%d'
        % (_encode(queue.broker_name), queue.queue_id, _encode(queue.topic), offset)
        for queue, offset in sorted(offsets.items())
    ]
    return b'{\n\t"offsetTable":{%b\n\t}\n}' % b",".join(entries)


def decode_offsets(content: bytes) -> dict[MessageQueue, int]:
    """Decode a file written by Apache's client or ours. Raise RemoteProtocolError if it is invalid."""
    return decode_file(content, ResetOffset).offset_table
