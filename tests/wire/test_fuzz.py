"""Whatever arrives, the decoders answer with a value or with a protocol error, and with nothing else.

More of it: HANABI_FUZZ_EXAMPLES=100000 pytest tests/wire/test_fuzz.py
"""

import json
import os
import struct
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.wire.codes import HeaderForm
from hanabi.wire.command import Command, decode_command, encode_head
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.header import Header, header_fields
from hanabi.wire.registry.headers import REPLY_HEADERS, REQUEST_HEADERS
from tests.golden_frames import ALL_FRAMES

fuzz = settings(
    max_examples=int(os.environ.get("HANABI_FUZZ_EXAMPLES", "300")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

GOLDEN_CONTENTS = [golden.frame[4:] for golden in ALL_FRAMES]
KINDS = sorted({*REQUEST_HEADERS.values(), *REPLY_HEADERS.values()}, key=lambda kind: kind.__name__)
KINDS_OF_GOLDEN = {
    content: (REPLY_HEADERS if golden.response else REQUEST_HEADERS).get(golden.request_code, KINDS[0])
    for content, golden in zip(GOLDEN_CONTENTS, ALL_FRAMES, strict=True)
}
TELLING_BYTES = st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x80", b'"', b"\\", b"{", b"}", b"[", b",", b":", b"\\u"])


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """*data* with a few bytes flipped, cut out, put in, or exchanged for a piece of another frame."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        # Most of what matters stands at the beginning: form, lengths, the fixed part of a binary header.
        start = min(start, draw(st.sampled_from([4, 24, 64, len(data)])))
        match draw(st.sampled_from(["flip", "cut", "insert", "splice", "truncate"])):
            case "flip":
                flipped = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in data[start : start + 1])
                data = data[:start] + flipped + data[start + 1 :]
            case "cut":
                data = data[:start] + data[start + draw(st.integers(1, 40)) :]
            case "insert":
                data = data[:start] + draw(TELLING_BYTES | st.binary(max_size=8)) + data[start:]
            case "splice":
                other = draw(st.sampled_from(GOLDEN_CONTENTS))
                other_start = draw(st.integers(0, len(other)))
                piece = other[other_start : other_start + draw(st.integers(1, 80))]
                data = data[:start] + piece + data[start + len(piece) :]
            case "truncate":
                data = data[:start]
    return data


def with_honest_lengths(content: bytes) -> bytes:
    """Return the same frame with a header length that fits, so that the damage reaches the header decoders."""
    header_bytes = min(int.from_bytes(content[1:4], "big"), max(len(content) - 4, 0))
    return content[:1] + header_bytes.to_bytes(3, "big") + content[4:]


def read_everything(content: bytes, kind: type[Header]) -> None:
    """Decode as far as it goes; what decodes must also encode and decode again to the same."""
    with suppress(RemoteProtocolError):
        command = decode_command(content)
        with suppress(RemoteProtocolError):
            assert read_again(command, command.fields()).fields() == command.fields()
        header = command.header(kind)
        assert read_again(command, header_fields(header)).header(kind) == header


def read_again(command: Command, fields: dict[str, str]) -> Command:
    head = encode_head(
        code=command.code,
        opaque=command.opaque,
        flag=command.flag,
        remark=command.remark,
        fields=fields,
        form=command.form,
    )
    (frame,) = FrameDecoder().feed(head)
    again = decode_command(frame)
    assert (again.code, again.opaque, again.flag) == (command.code, command.opaque, command.flag)
    assert again.remark == command.remark
    return again


@fuzz
@given(st.data())
def test_damaged_golden_frames_raise_nothing_but_protocol_errors(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(GOLDEN_CONTENTS))
    damaged = data.draw(mutated(content))
    if data.draw(st.booleans()):
        damaged = with_honest_lengths(damaged)
    read_everything(damaged, KINDS_OF_GOLDEN[content])


@fuzz
@given(st.data())
def test_a_damaged_stream_raises_nothing_but_protocol_errors_and_keeps_little(data: st.DataObject) -> None:
    goldens = data.draw(st.lists(st.sampled_from(ALL_FRAMES), min_size=1, max_size=4))
    stream = data.draw(mutated(b"".join(golden.frame for golden in goldens)))
    decoder = FrameDecoder(frame_bytes_max=100_000)
    cut = data.draw(st.integers(0, len(stream)))
    with suppress(RemoteProtocolError):
        for piece in (stream[:cut], stream[cut:]):
            for frame in decoder.feed(piece):
                with suppress(RemoteProtocolError):
                    decode_command(frame).fields()
    assert decoder.buffered_bytes <= len(stream)


@fuzz
@given(st.integers(0, 3), st.binary(max_size=200))
def test_noise_raises_nothing_but_protocol_errors(form: int, noise: bytes) -> None:
    read_everything(bytes([form]) + len(noise).to_bytes(3, "big") + noise, KINDS[0])
    read_everything(noise, KINDS[0])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.text("0123456789-+.eE", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@fuzz
@given(st.data())
def test_fields_of_any_json_type_raise_nothing_but_protocol_errors(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    names = st.sampled_from([*kind.__struct_encode_fields__, "else"])
    fields = data.draw(st.dictionaries(names, JSON) | JSON)
    members = {"code": data.draw(st.just(1) | JSON), "remark": data.draw(JSON), "extFields": fields}
    header = json.dumps(members).encode()
    read_everything(b"\0" + len(header).to_bytes(3, "big") + header, kind)


LENGTHS = st.integers(-3, 20) | st.sampled_from([-(2**15), 2**15 - 1])


@fuzz
@given(st.lists(st.tuples(LENGTHS, st.binary(max_size=12), LENGTHS, st.binary(max_size=12)), max_size=4))
def test_binary_fields_of_any_lengths_raise_nothing_but_protocol_errors(
    parts: list[tuple[int, bytes, int, bytes]],
) -> None:
    pieces = (struct.pack(">h", a) + name + struct.pack(">i", b) + value for a, name, b, value in parts)
    fields = b"".join(pieces)
    header = struct.pack(">hBhiiii", 1, 0, 409, 1, 0, 0, len(fields)) + fields
    read_everything(bytes([HeaderForm.BINARY]) + len(header).to_bytes(3, "big") + header, KINDS[0])
