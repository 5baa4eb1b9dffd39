"""Bodies in zstd and lz4 on workers that have no package for them: Arrow unpacks them."""

import subprocess
import sys

import pytest

from hanabi.errors import RemoteProtocolError
from hanabi.spark.decode.unpack import unpack_by_arrow
from hanabi.wire.message.compression import BODY_BYTES_MAX, CompressionType, compress
from hanabi.wire.message.sysflag import with_compression

PLAIN = b"orders and bills " * 500
CODECS = [("zstd", CompressionType.ZSTD), ("lz4", CompressionType.LZ4)]
WITHOUT_PACKAGES = """
import sys

sys.modules["zstandard"] = sys.modules["lz4"] = None
from hanabi.spark.decode.unpack import unpack

for line in sys.stdin:
    sys_flag, body = line.split()
    print(unpack(bytes.fromhex(body), int(sys_flag)).hex())
"""


def test_bodies_are_unpacked_without_packages_for_them() -> None:
    flags = [with_compression(0, number) for number in CompressionType]
    bodies = [compress(PLAIN, number).hex() for number in CompressionType]
    lines = "\n".join(f"{sys_flag} {body}" for sys_flag, body in zip(flags, bodies, strict=True))
    ran = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGES], input=lines, capture_output=True, text=True)
    assert ran.stdout.split() == [PLAIN.hex()] * len(CompressionType), ran.stderr


@pytest.mark.parametrize(("codec", "number"), CODECS)
def test_what_is_damaged_or_too_large_is_refused(codec: str, number: CompressionType) -> None:
    whole = compress(PLAIN, number)
    assert unpack_by_arrow(whole, codec, len(PLAIN)) == PLAIN
    for spoilt in (whole[:-3], whole + b"more", b"garbage of no kind", b""):
        with pytest.raises(RemoteProtocolError, match=f"bad {codec} body"):
            unpack_by_arrow(spoilt, codec, BODY_BYTES_MAX)
    with pytest.raises(RemoteProtocolError, match="unpacks to more than"):
        unpack_by_arrow(whole, codec, len(PLAIN) - 1)
