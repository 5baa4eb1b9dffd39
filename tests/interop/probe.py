"""Asks a name server one thing over a plain socket, so that a test can wait for a fact and not for a time."""

import socket
from collections.abc import Mapping

from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_head
from hanabi.wire.frame import FrameDecoder


def ask(address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
    """Send one request to *address* on a connection of its own; return the answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(encode_head(code=code, opaque=1, fields=fields, body_bytes=len(body)) + body)
        decoder = FrameDecoder()
        while data := connection.recv(1 << 16):
            for frame in decoder.feed(data):
                return decode_command(frame)
    raise ConnectionError(f"{address} closed the connection without an answer")


def knows_broker(namesrv: str, broker: str) -> bool:
    """Whether *namesrv* lists a broker of this name."""
    return f'"brokerName":"{broker}"'.encode() in ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO).body


def routes_to(namesrv: str, topic: str, broker: str) -> bool:
    """Whether *namesrv* sends clients of *topic* to this broker."""
    answer = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return answer.code == ResponseCode.SUCCESS and f'"brokerName":"{broker}"'.encode() in answer.body
