"""The Huffman code of HPACK (RFC 7541, appendix B).

The code is canonical: the lengths of the codes determine them. Decoding walks an automaton by four bits at a time; no
code is shorter than five bits, so a step yields at most one octet.
"""

from functools import cache
from typing import Final

from hanabi.errors import RemoteProtocolError

END: Final = 256  # the symbol that never occurs; its leading bits pad the last octet

# Bits of the code of each octet, and of END: pairs of (count, bits) in the order of the octets.
_RUNS: Final = (
    "1*13 1*23 7*28 1*24 1*30 2*28 1*30 8*28 1*30 9*28 1*6 2*10 1*12 1*13 1*6 1*8 1*11 2*10 1*8 1*11 1*8 3*6 3*5 7*6 "
    "1*7 1*8 1*15 1*6 1*12 1*10 1*13 1*6 22*7 1*8 1*7 1*8 1*13 1*19 1*13 1*14 1*6 1*15 1*5 1*6 1*5 1*6 1*5 3*6 1*5 2*7 "
    "3*6 1*5 1*6 1*7 1*6 2*5 1*6 5*7 1*15 1*11 1*14 1*13 1*28 1*20 1*22 2*20 3*22 1*23 1*22 5*23 1*24 1*23 2*24 1*22 "
    "1*23 1*24 4*23 1*21 1*22 1*23 1*22 2*23 1*24 1*22 1*21 1*20 2*22 2*23 1*21 1*23 2*22 1*24 1*21 1*22 2*23 2*21 "
    "1*22 1*21 1*23 1*22 2*23 1*20 3*22 1*23 2*22 1*23 2*26 1*20 1*19 1*22 1*23 1*22 1*25 3*26 2*27 1*26 1*24 1*25 "
    "1*19 1*21 1*26 2*27 1*26 1*27 1*24 2*21 2*26 1*28 3*27 1*20 1*24 1*20 1*21 1*22 2*21 1*23 2*22 2*25 2*24 1*26 "
    "1*23 1*26 1*27 2*26 5*27 1*28 5*27 1*26 1*30"
)
_PADDING_BITS_MAX: Final = 7


def code_lengths() -> list[int]:
    """Return the bits of the code of each octet, and of END."""
    lengths: list[int] = []
    for run in _RUNS.split():
        count, bits = run.split("*")
        lengths += [int(bits)] * int(count)
    return lengths


@cache
def codes() -> tuple[tuple[int, int], ...]:
    """Return the code and its bits, for each octet and END."""
    lengths = code_lengths()
    found = [(0, 0)] * len(lengths)
    code, bits = 0, 0
    for symbol in sorted(range(len(lengths)), key=lambda each: (lengths[each], each)):
        code = (code + bool(bits)) << (lengths[symbol] - bits)
        bits = lengths[symbol]
        found[symbol] = code, bits
    return tuple(found)


def encode(data: bytes) -> bytes:
    """Return *data* in the Huffman code."""
    table, value, bits = codes(), 0, 0
    for octet in data:
        code, length = table[octet]
        value, bits = value << length | code, bits + length
    padding = -bits % 8
    return ((value << padding) | ((1 << padding) - 1)).to_bytes((bits + padding) // 8, "big")


def decode(data: bytes) -> bytes:
    """Return the octets whose code is *data*."""
    steps, is_end = _automaton()
    state, octets = 0, bytearray()
    for octet in data:
        for nibble in (octet >> 4, octet & 15):
            state, symbol = steps[state][nibble]
            if symbol >= 0:
                if symbol == END:
                    raise RemoteProtocolError("HPACK: a text in Huffman code contains the end symbol")
                octets.append(symbol)
    if not is_end[state]:
        raise RemoteProtocolError("HPACK: a text in Huffman code ends within a symbol")
    return bytes(octets)


@cache
def _automaton() -> tuple[list[list[tuple[int, int]]], list[bool]]:
    """Return the steps: for each state and four bits the next state and the symbol, -1 without one; and the states in
    which a text may end."""
    children: list[list[int]] = [[0, 0]]  # positive: a node; negative: the symbol -n - 1
    for symbol, (code, bits) in enumerate(codes()):
        node = 0
        for place in range(bits - 1, 0, -1):
            bit = code >> place & 1
            if not children[node][bit]:
                children.append([0, 0])
                children[node][bit] = len(children) - 1
            node = children[node][bit]
        children[node][code & 1] = -symbol - 1
    steps = [[_step(children, node, nibble) for nibble in range(16)] for node in range(len(children))]
    ends, node = [False] * len(children), 0
    for _ in range(_PADDING_BITS_MAX + 1):  # padding is a run of ones shorter than an octet
        ends[node] = True
        node = children[node][1]
    return steps, ends


def _step(children: list[list[int]], node: int, nibble: int) -> tuple[int, int]:
    symbol = -1
    for place in (3, 2, 1, 0):
        node = children[node][nibble >> place & 1]
        if node < 0:
            symbol, node = -node - 1, 0
    return node, symbol
