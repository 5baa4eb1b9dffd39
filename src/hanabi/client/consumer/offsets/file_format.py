"""The content of a file of local offsets: a map from queues, which no JSON but fastjson's can have. Pure.

    {
    →"offsetTable":{{
    →→→"brokerName":"broker-a",
    →→→"queueId":0,
    →→→"topic":"Orders"
    →→}:42,{                          (and so on: an object that is a key begins on the line where it stands)
    →}
    }

Agrees with OffsetSerializeWrapper.toJson(true) of 4.9 and of 5.x, byte for byte but for the order of the queues, which
is Java's own.
"""

from collections.abc import Mapping

import msgspec

from hanabi.message import MessageQueue
from hanabi.wire.bodies.offsets import ResetOffset
from hanabi.wire.fastjson import decode_file

_encode = msgspec.json.Encoder().encode


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The file that has *offsets*."""
    if not offsets:
        return b'{\n\t"offsetTable":{}\n}'
    entries = [
        b'{\n\t\t\t"brokerName":%b,\n\t\t\t"queueId":%d,\n\t\t\t"topic":%b\n\t\t}:%d'
        % (_encode(queue.broker_name), queue.queue_id, _encode(queue.topic), offset)
        for queue, offset in sorted(offsets.items())
    ]
    return b'{\n\t"offsetTable":{%b\n\t}\n}' % b",".join(entries)


def decode_offsets(content: bytes) -> dict[MessageQueue, int]:
    """The offsets in a file that Apache's client or ours has written. RemoteProtocolError if it is none."""
    return decode_file(content, ResetOffset).offset_table
