"""Codecs of message bodies: values of the program instead of bytes, for producers and consumers.

orders = Json(Order)                                    # a msgspec Struct, dataclass, TypedDict or pydantic model
producer.send(orders.message("Orders", Order(43, "paid"), tags="paid"))

@consumer.listener
@orders.listener
def bill(received: list[Received[Order]]) -> None: ...  # a body that does not decode becomes a dead letter
"""

from hanabi.codecs.avro import Avro
from hanabi.codecs.codec import Codec, MessageOptions
from hanabi.codecs.json import Json
from hanabi.codecs.msgpack import MsgPack
from hanabi.codecs.protobuf import Protobuf
from hanabi.codecs.received import Received
from hanabi.errors import BodyNotDecoded

__all__ = ["Avro", "BodyNotDecoded", "Codec", "Json", "MessageOptions", "MsgPack", "Protobuf", "Received"]
