"""Sends with every property, alone and in a batch, and the properties that a broker stored for them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.header import header_fields
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message import property_names
from hanabi.wire.message.batch import BatchMessage, encode_batch
from tests.interop.probe import Conversation
from tests.interop.store_files import log_records

TOPIC: Final = "StoredProperties"
KEY: Final = "UNIQ_KEY\x017F0000011A2B251A69D701C5F3A000A7"

# A message with one of these is diverted, or refused in a batch by us; Apache stores it in a batch and delivers it at
# once. Light queues and inner batches are not ours, and the sum of a record belongs to 5.x's stores.
_WITH_A_WAY_OF_THEIR_OWN: Final = {
    *(name for name in vars(property_names).values() if isinstance(name, str) and name.startswith("TIMER_")),
    property_names.DELAY_LEVEL,
    property_names.TRANSACTION_PREPARED,
    property_names.INNER_MULTI_DISPATCH,
    property_names.INNER_NUM,
    property_names.CRC32,
}
NAMES: Final = sorted(
    name
    for constant, name in vars(property_names).items()
    if constant.isupper() and isinstance(name, str) and name.strip() and name not in _WITH_A_WAY_OF_THEIR_OWN
)


class Sent(NamedTuple):
    """One request: the header's properties, and those of each message if it is a batch."""

    outer: str
    inner: tuple[bytes, ...] = ()


def text(*pairs: str) -> str:
    return "\x02".join(pairs)


SINGLE: Final = [
    *(Sent(text(KEY, f"{name}\x01value", "WAIT\x01true", "TAGS\x01red")) for name in NAMES),
    *(Sent(text(f"{name}\x01value", KEY)) for name in NAMES),
    Sent(text("KEYS\x01k", "TAGS\x01t", KEY)),
    Sent(text("KEYS\x01k", "TAGS\x01t", KEY, "WAIT\x01true", "")),
    Sent(text("WAIT\x01false", KEY, "a\x01b")),
    Sent(text("WAIT\x01TRUE", KEY)),
    Sent(text("WAIT\x01true", KEY, "WAIT\x01false")),
    Sent(text(KEY, "TAGS\x01one", "TAGS\x01two", "TAGS\x01")),
    Sent(text("", "\x01x", "no value", "x\x01", "a\x01\x01b", KEY, "", "")),
    Sent(text(KEY, "q\x011", "a\x012", "0\x013", "A\x014", "Q\x015")),  # of one bucket
    Sent(text(KEY, *(f"{name}\x01v" for name in "qazwsxedcrfv"))),  # more buckets with the cluster
    Sent(text(KEY, "WAIT\x01true", *(f"{name}\x01v" for name in "qazwsxedcr"))),  # only while WAIT is there
    Sent(text(KEY, *(f"property {number}\x01{number}" for number in range(120)))),
    Sent(text(KEY, "größe\x01ü€", "名前\x01値", "😀\x01😀")),
    Sent(text(KEY, "WAIT\x01true", "DELAY\x0118", "TAGS\x01t")),
    Sent(text(KEY, "DELAY\x010", "WAIT\x01true")),
    Sent(text(KEY, "TRAN_MSG\x01true", "PGROUP\x01g", "WAIT\x01true", "TAGS\x01t")),
    Sent(text(KEY, "TRAN_MSG\x01false", "PGROUP\x01g")),
]
WITHOUT_KEY: Final = [Sent(""), Sent("WAIT\x01true"), Sent(text("KEYS\x01k", "TAGS\x01t")), Sent("CLUSTER\x01mine")]
RED: Final = text(KEY, "TAGS\x01red", "WAIT\x01false", "")
INNER: Final = (KEY.encode(), RED.encode(), b"", b"\xff\xfe", b"a\x01b\x02\x02")
BATCHES: Final = [
    *(Sent(outer, INNER) for outer in ("", "WAIT\x01true", "WAIT\x01false", text("TAGS\x01t", "KEYS\x01k", ""))),
    *(Sent(text(f"{name}\x01outer", "WAIT\x01true", "TAGS\x01t"), INNER) for name in NAMES),
    *(Sent("WAIT\x01false", (text(f"{name}\x01inner", KEY).encode(), KEY.encode())) for name in NAMES),
    Sent(text(*(f"property {number}\x01{number}" for number in range(40))), INNER),
    Sent("größe\x01ü€", INNER),
    Sent("DELAY\x010", (text(KEY, "DELAY\x010").encode(),)),
    Sent("TRAN_MSG\x01false", (text(KEY, "TRAN_MSG\x01false").encode(),)),
]


def send_all(conversation: Conversation, cases: Sequence[Sent], version: int) -> None:
    """Send *cases*, in order, as a client of *version* does."""
    for case in cases:
        header = SendMessageV2Header(
            producer_group="g",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            properties=case.outer,
            reconsume_times=0,
            batch=bool(case.inner),
        )
        body = encode_batch(BatchMessage(0, b"body", inner) for inner in case.inner) if case.inner else b"body"
        code = RequestCode.SEND_BATCH_MESSAGE if case.inner else RequestCode.SEND_MESSAGE_V2
        answer = conversation.ask(code, header_fields(header), body, version=version)
        assert answer.code == ResponseCode.SUCCESS, (case, answer.remark)


def stored(root: Path, cases: Sequence[Sent]) -> Iterator[tuple[Sent, list[bytes]]]:
    """Yield each of *cases* and the properties of its records: all that is in the log at *root* are theirs."""
    records = iter(log_records(root))
    for case in cases:
        yield case, [next(records).properties for _ in case.inner or (b"",)]
    assert next(records, None) is None


def comparable(raw: bytes) -> bytes:
    """*raw* without the unique key that a broker of 5.x makes up for a message that has none, and without the one that
    a batch has besides those of its messages, which we leave out (see `stored_properties`)."""
    made_up = re.compile(
        rb"UNIQ_KEY\x01(?!%b)(?:[0-9A-F]{32}|[0-9A-F]{56})\x02" % KEY.removeprefix("UNIQ_KEY\x01").encode()
    )
    return made_up.sub(b"UNIQ_KEY\x01made up\x02", raw.replace(b"UNIQ_KEY\x01outer\x02", b""))
