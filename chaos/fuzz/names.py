"""Names and numbers that servers stumble over, and some that they should take. Pure."""

import random
from typing import Final

TOPICS: Final = (
    "FuzzTopic1",
    "FuzzTopic2",
    "FuzzTopic3",
    "%RETRY%fuzz_group_1",
    "%DLQ%fuzz_group_1",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "rmq_sys_wheel_timer",
    "TBW102",
)
GROUPS: Final = ("fuzz_group_1", "fuzz_group_2", "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER", "CLIENT_INNER_PRODUCER")
NASTY: Final = (
    "",
    " ",
    ".",
    "..",
    "../../../../fuzz_escape",
    "/fuzz_escape",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb 2026-01-01 00:00:00,000 ERROR forged",
    "\x1b[31mred\x1b[0m",
    "\r\nSet-Cookie: x",
    "%s%n%x{0}",
    "${jndi:ldap://127.0.0.1/x}",
    "' OR 1=1 --",
    "x" * 255,
    "y" * 5_000,
    "\u202egnp.exe",
    "😀" * 60,
    "null",
    "NaN",
    "true",
    "a@b",
    "a@b@c",
    "%RETRY%",
    "%RETRY%../../fuzz_escape",
)
NUMBERS: Final = (
    "0",
    "1",
    "-1",
    "3",
    "32",
    "1000",
    "2147483647",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e9",
    "0x10",
    "٣",  # a digit that is not ASCII
    "1.5",
    "",
)
TEXTS: Final = (
    "*",
    "TagA || TagB",
    "a > 1 AND b IS NOT NULL",
    "TAG",
    "SQL92",
    "KEYS\x01k1\x02TAGS\x01t\x02",
    "true",
    "DELAY\x011\x02",
)


def any_text(dice: random.Random) -> str:
    return dice.choice(dice.choices((TOPICS, GROUPS, NASTY, NUMBERS, TEXTS), (4, 3, 3, 1, 2))[0])


def text_for(dice: random.Random, field: str) -> str:
    """Mostly what a field of this name may be, so that the request gets past the first look."""
    if dice.random() < 0.2:
        return any_text(dice)
    lower = field.lower()
    if "group" in lower:
        return dice.choice(GROUPS)
    if "topic" in lower:
        return dice.choice(TOPICS)
    return any_text(dice)
