"""Asks a server over a plain socket, so that a test can wait for a fact and not for a time."""

import socket
from collections.abc import Mapping

from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import VERSION, Command, decode_command, encode_head
from hanabi.wire.frame import FrameDecoder

ANSWER_TIMEOUT_S = 30


class Conversation:
    """Questions and answers over one connection, one at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S)
        self._decoder = FrameDecoder()

    def ask(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", *, version: int = VERSION
    ) -> Command:
        """Send one request; return the answer."""
        head = encode_head(code=code, opaque=1, fields=fields, body_bytes=len(body), version=version)
        self._socket.sendall(head + body)
        while data := self._socket.recv(1 << 16):
            for frame in self._decoder.feed(data):
                return decode_command(frame)
        raise ConnectionError(f"{self._address} closed the connection without an answer")

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def ask(address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
    """Send one request to *address* on a connection of its own; return the answer."""
    with Conversation(address) as conversation:
        return conversation.ask(code, fields, body)


def knows_broker(namesrv: str, broker: str) -> bool:
    """Return whether *namesrv* lists a broker of this name."""
    return f'"brokerName":"{broker}"'.encode() in ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO).body


def routes_to(namesrv: str, topic: str, broker: str) -> bool:
    """Return whether *namesrv* sends clients of *topic* to this broker."""
    answer = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return answer.code == ResponseCode.SUCCESS and f'"brokerName":"{broker}"'.encode() in answer.body
