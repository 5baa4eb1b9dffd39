"""A plain copy of a file over TCP on this machine, by two processes: what a slave that catches up is compared with.

python -m benches.plain_copy PORT FILE    receives one connection into FILE
"""

import socket
import sys
import time
from pathlib import Path

from tests.interop.processes import ServerProcess, free_port

CHUNK_BYTES = 256 << 10


def bytes_per_second(files: list[Path], size: int, target: Path) -> float:
    """Return how fast the first *size* bytes of *files* are copied to *target*."""
    port = free_port()
    command = [sys.executable, "-m", "benches.plain_copy", str(port), str(target)]
    receiver = ServerProcess("the receiver", command, target.with_suffix(".log"))
    try:
        receiver.wait_for_line("ready")
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for file in files:
                with file.open("rb") as source:
                    size -= connection.sendfile(source, 0, min(size, file.stat().st_size)) if size else 0
            connection.shutdown(socket.SHUT_WR)
            copied = int.from_bytes(connection.recv(8))
        assert not size
        return copied / (time.monotonic() - began)
    finally:
        receiver.kill()
        target.unlink(missing_ok=True)


def receive(port: int, target: Path) -> None:
    """Write all that one connection sends, and answer with its size."""
    buffer = memoryview(bytearray(CHUNK_BYTES))
    with socket.create_server(("127.0.0.1", port)) as server, target.open("wb", buffering=0) as file:
        print("ready", flush=True)
        connection, _ = server.accept()
        while size := connection.recv_into(buffer):
            file.write(buffer[:size])
        connection.sendall(file.tell().to_bytes(8))


if __name__ == "__main__":
    receive(int(sys.argv[1]), Path(sys.argv[2]))
