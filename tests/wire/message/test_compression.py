"""Compressed bodies, ours and Java's."""

import contextlib
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import CompressionType, compress, decompress
from hanabi.wire.message.record import decode_records
from tests.golden_records import frames_with_records

TEXT = b"hanabi " * 20
# What Java's compressors of RocketMQ 4.9.8 made of TEXT at level 5.
MADE_BY_JAVA = {
    CompressionType.LZ4: "04224d18607073110000007f68616e6162692007006d506e6162692000000000",
    CompressionType.ZSTD: "28b52ffd00587400003868616e6162692001000251c508010000",
    CompressionType.ZLIB: "785ecb48cc4b4cca54c8180c1400e765323d",
}
ALL_TYPES = pytest.mark.parametrize("compression", list(CompressionType), ids=lambda kind: kind.name)


def flag_of(compression: CompressionType) -> int:
    return sysflag.with_compression(0, compression)


@ALL_TYPES
def test_what_java_compressed_is_read(compression: CompressionType) -> None:
    assert decompress(bytes.fromhex(MADE_BY_JAVA[compression]), flag_of(compression)) == TEXT


@ALL_TYPES
@given(body=st.binary(max_size=300))
def test_a_body_comes_back_as_it_was(compression: CompressionType, body: bytes) -> None:
    assert decompress(compress(body, compression), flag_of(compression)) == body


def test_clients_that_knew_only_zlib_said_only_that_the_body_is_compressed() -> None:
    assert decompress(zlib.compress(TEXT), sysflag.COMPRESSED) == TEXT


def test_a_body_that_is_not_compressed_stays_as_it_is() -> None:
    assert decompress(TEXT, 0) is TEXT
    assert decompress(TEXT, flag_of(CompressionType.LZ4) & ~sysflag.COMPRESSED) is TEXT


def test_the_flag_of_each_type_is_javas() -> None:
    assert [flag_of(kind) for kind in CompressionType] == [0x101, 0x201, 0x301]
    assert sysflag.compression_number(0x301) == CompressionType.ZLIB
    assert sysflag.with_compression(0x130, CompressionType.ZSTD) == 0x231


def test_lz4_blocks_do_not_refer_to_each_other_because_java_could_not_read_them() -> None:
    assert compress(TEXT * 20_000, CompressionType.LZ4)[4] & 0x20  # of several blocks; one alone always says so


@ALL_TYPES
def test_a_small_body_cannot_unpack_to_more_than_the_limit(compression: CompressionType) -> None:
    bomb = compress(bytes(1_000_000), compression)
    assert len(bomb) < 10_000
    assert len(decompress(bomb, flag_of(compression), 1_000_000)) == 1_000_000
    with pytest.raises(RemoteProtocolError, match="more than 999999"):
        decompress(bomb, flag_of(compression), 999_999)


@ALL_TYPES
def test_a_body_that_was_cut_off_is_refused(compression: CompressionType) -> None:
    whole = bytes.fromhex(MADE_BY_JAVA[compression])
    for size in range(len(whole)):
        with pytest.raises(RemoteProtocolError, match=f"bad {compression.name.lower()} body"):
            decompress(whole[:size], flag_of(compression))


@ALL_TYPES
@given(place=st.integers(0, 31), bit=st.integers(0, 7), junk=st.binary(max_size=20))
def test_a_broken_body_is_refused_or_read_as_something(
    compression: CompressionType, place: int, bit: int, junk: bytes
) -> None:
    broken = bytearray(bytes.fromhex(MADE_BY_JAVA[compression]))
    broken[place % len(broken)] ^= 1 << bit
    for body in (bytes(broken), junk, bytes(broken) + junk):
        with contextlib.suppress(RemoteProtocolError):
            decompress(body, flag_of(compression), 10_000)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown way: 5"):
        decompress(TEXT, sysflag.with_compression(0, 5))


@pytest.mark.parametrize(
    ("compression", "package", "extra"),
    [(CompressionType.LZ4, "lz4.frame", "lz4"), (CompressionType.ZSTD, "zstandard", "zstd")],
)
def test_a_missing_package_is_named_by_the_extra_that_brings_it(
    compression: CompressionType, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = bytes.fromhex(MADE_BY_JAVA[compression])
    monkeypatch.setitem(sys.modules, package, None)  # how Python itself marks a module that cannot be imported
    if "." in package:
        monkeypatch.setitem(sys.modules, package.partition(".")[0], None)
    with pytest.raises(MQError, match=rf"pip install '\.\[{extra}\]'"):
        compress(TEXT, compression)
    with pytest.raises(MQError, match=rf"pip install '\.\[{extra}\]'"):
        decompress(packed, flag_of(compression))


def test_the_golden_compressed_body_is_read() -> None:
    records = [record for _, command in frames_with_records() for record in decode_records(command.body)]
    compressed = [record for record in records if record.sys_flag & sysflag.COMPRESSED]
    assert compressed
    for record in compressed:
        assert len(decompress(record.body, record.sys_flag)) > 4096
