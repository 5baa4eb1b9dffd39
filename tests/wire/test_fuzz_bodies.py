"""Whatever a body says, its decoder answers with a value or with a protocol error, and with nothing else.

More of it: HANABI_FUZZ_EXAMPLES=100000 pytest tests/wire/test_fuzz_bodies.py
"""

import os
import zlib
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.wire.bodies.topics import RegisterBrokerBody, decode_register_body, encode_register_body
from hanabi.wire.body import Body
from hanabi.wire.command import decode_command
from hanabi.wire.dialect import parse_dialect
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.registry.bodies import REPLY_BODIES, REQUEST_BODIES
from tests.golden_frames import ALL_FRAMES

fuzz = settings(
    max_examples=int(os.environ.get("HANABI_FUZZ_EXAMPLES", "300")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

KINDS = sorted({*REQUEST_BODIES.values(), *REPLY_BODIES.values()}, key=lambda kind: kind.__name__)
KINDS_OF_GOLDEN = {
    body: (REPLY_BODIES if golden.response else REQUEST_BODIES)[golden.request_code]
    for golden in ALL_FRAMES
    if (body := decode_command(golden.frame[4:]).body).startswith(b"{")
}
GOLDEN_BODIES = sorted(KINDS_OF_GOLDEN)
LAYOUTS = [
    zlib.decompress(encode_register_body(decode_body(body, RegisterBrokerBody), compress=True))
    for body, kind in KINDS_OF_GOLDEN.items()
    if kind is RegisterBrokerBody
]
TELLING = st.sampled_from(
    [*b"{}[]:,'\"\\$\0\xff0-", b'{"$ref":"$"}', b'{"$ref":"$.offsetTable"}', b"null", b"1:", b"NaN", b"\\u", b"\\ud800"]
).map(lambda piece: piece if isinstance(piece, bytes) else bytes([piece]))


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """*data* with a few bytes flipped, cut out, put in, doubled, or exchanged for a piece of another body."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 60)))
        match draw(st.sampled_from(["flip", "cut", "insert", "double", "splice", "truncate"])):
            case "flip" if start < len(data):
                data = data[:start] + bytes([data[start] ^ draw(st.integers(1, 255))]) + data[start + 1 :]
            case "cut":
                data = data[:start] + data[end:]
            case "double":
                data = data[:end] + data[start:]
            case "splice":
                other = draw(st.sampled_from(GOLDEN_BODIES))
                data = data[:start] + other[draw(st.integers(0, len(other))) :]
            case "truncate":
                data = data[:start]
            case _:
                data = data[:start] + draw(TELLING | st.binary(max_size=8)) + data[start:]
    return data


def decode_and_return(data: bytes, kind: type[Body]) -> None:
    """Check that what decodes also encodes, and comes back the same."""
    with suppress(RemoteProtocolError):
        value = decode_body(data, kind)
        for standard in (False, True):
            assert decode_body(encode_body(value, standard=standard), kind) == value


@fuzz
@given(st.sampled_from(GOLDEN_BODIES).flatmap(lambda body: st.tuples(st.just(body), mutated(body))))
def test_fuzz_a_mutated_body_is_a_value_or_a_protocol_error(bodies: tuple[bytes, bytes]) -> None:
    original, changed = bodies
    decode_and_return(changed, KINDS_OF_GOLDEN[original])


@fuzz
@given(st.sampled_from(KINDS), st.sampled_from(GOLDEN_BODIES).flatmap(mutated))
def test_fuzz_a_body_of_another_kind_is_a_value_or_a_protocol_error(kind: type[Body], data: bytes) -> None:
    decode_and_return(data, kind)


@fuzz
@given(
    st.binary(max_size=60)
    | st.lists(TELLING | st.sampled_from([b'"a"', b"a", b"1.5e3", b" "]), max_size=60).map(b"".join)
)
def test_fuzz_the_dialect_reader_returns_or_raises_a_protocol_error(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        parse_dialect(data)


@fuzz
@given(st.sampled_from(LAYOUTS).flatmap(mutated), st.booleans())
def test_fuzz_a_compressed_registration_is_a_value_or_a_protocol_error(layout: bytes, compress: bool) -> None:
    with suppress(RemoteProtocolError):
        decode_register_body(zlib.compress(layout, 1) if compress else layout, compressed=True)
