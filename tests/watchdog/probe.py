"""Another client, in a process of its own: python -m tests.watchdog.probe HOST PORT SERVER_PID FILE.

Asks for the end of a queue and sends a message in turn, one request at a time, a few milliseconds apart. A request that
takes long is a line of FILE: see `stall`. The first line says that it is at work. Ends when its standard input does.
"""

import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from hanabi.wire.codes import RequestCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.headers.offset import GetMaxOffsetHeader
from hanabi.wire.headers.send import SendMessageV2Header
from tests.watchdog.stall import read_threads, stall_of

PAUSE_S: Final = 0.003
NOTED_S: Final = 0.03
TOPIC: Final = "t00000"
_ASK: Final = encode_request(RequestCode.GET_MAX_OFFSET, 1, GetMaxOffsetHeader(topic=TOPIC, queue_id=0), b"")
_SEND: Final = encode_request(
    RequestCode.SEND_MESSAGE_V2,
    2,
    SendMessageV2Header(
        producer_group="probe",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
    ),
    b"probe",
)


def main(host: str, port: str, server: str, file: str) -> None:
    server_pid, own_pid = int(server), os.getpid()
    with socket.create_connection((host, int(port))) as peer, Path(file).open("ab", buffering=0) as lines:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        requests = (_ASK, _SEND)
        lines.write(b"at work\n")
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            requests = requests[::-1]
            before, begin = read_threads(server_pid) | read_threads(own_pid), time.monotonic()
            _ask(peer, requests[0])
            end = time.monotonic()
            if end - begin > NOTED_S:
                after = read_threads(server_pid) | read_threads(own_pid)
                lines.write(msgspec.json.encode(stall_of(begin, end, server_pid, before, after)) + b"\n")


def _ask(peer: socket.socket, request: bytes) -> None:
    peer.sendall(request)
    answer = bytearray()
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
        data = peer.recv(1 << 16)
        if not data:
            raise SystemExit("the server closed the connection of the probe")
        answer += data
    reply = decode_command(bytes(answer[4:]))
    if reply.code:
        raise SystemExit(f"the probe was refused: {reply.code} {reply.remark}")


if __name__ == "__main__":
    main(*sys.argv[1:])
