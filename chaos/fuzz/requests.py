"""Requests that are well-formed and mean nothing good: any code, with fields of its own names and values from anywhere.

Codes that an operator uses to change how a whole server works (its settings, its permissions) are left out: a server
that does as it is told is not at fault, and the normal client would notice.
"""

import random
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from chaos.fuzz.names import GROUPS, NUMBERS, TOPICS, any_text, text_for
from hanabi.errors import MQError
from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.registry.headers import REQUEST_HEADERS

HARMFUL_ON_PURPOSE: Final = frozenset(
    {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.CLEAN_UNUSED_TOPIC,
    }
)
CODES: Final = tuple(code for code in RequestCode if code not in HARMFUL_ON_PURPOSE)
PROPERTIES: Final = (
    "",
    "DELAY\x011\x02",
    "KEYS\x01fuzz\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01fuzz_group_1\x02",
)
_BOMB: Final = zlib.compress(bytes(50_000_000), 9)


def strange(dice: random.Random, bodies: Sequence[bytes]) -> bytes:
    """Return one request. *bodies* are real ones, of any kind."""
    code = dice.choice(CODES) if dice.random() < 0.95 else dice.randrange(-10, 70_000)
    kind = REQUEST_HEADERS.get(code)
    fields: dict[str, str] = {}
    if kind is not None:
        for field in msgspec.structs.fields(kind):
            if dice.random() < 0.9:
                fields[field.encode_name] = _value(dice, field.encode_name, str(field.type))
    if dice.random() < 0.1:
        fields[any_text(dice)] = any_text(dice)
    form = HeaderForm.BINARY if dice.random() < 0.3 and 0 <= code < 32_768 else HeaderForm.JSON
    try:
        return encode_request(
            code, dice.randrange(1 << 31), fields, _body(dice, bodies), oneway=dice.random() < 0.1, form=form
        )
    except (ValueError, OverflowError, MQError):
        return encode_request(
            RequestCode.GET_BROKER_RUNTIME_INFO, 1
        )  # what our own encoder refuses is no test of theirs


def is_harmful(frame: bytes) -> bool:
    """Return whether servers that understand *frame*, which has its length in front, would rightly do harm: then it
    proves nothing. A mutation of a harmless one may have become that."""
    try:
        return decode_command(frame[4:]).code in HARMFUL_ON_PURPOSE
    except MQError:
        return False


def _value(dice: random.Random, name: str, type_text: str) -> str:
    if "bool" in type_text:
        return dice.choice(("true", "false", "TRUE", "1", ""))
    if "int" in type_text.lower():
        return dice.choice(NUMBERS) if dice.random() < 0.5 else str(dice.randrange(8))
    return text_for(dice, name)


def _body(dice: random.Random, bodies: Sequence[bytes]) -> bytes:
    match dice.randrange(8):
        case 0 | 1 | 2:
            return dice.choice(bodies)
        case 3:
            return dice.randbytes(dice.randint(0, 2_000))
        case 4:
            return _BOMB
        case 5:
            return b"[" * dice.randint(1, 3_000)
        case 6:
            return ("{" + ",".join(f'"{number}":{number}' for number in range(dice.randint(0, 500))) + "}").encode()
        case _:
            return b""


def conversation(dice: random.Random) -> list[bytes]:
    """Requests as a client makes them, one after the other, in order; the client just never finishes its work."""
    group, topic, client = dice.choice(GROUPS[:2]), dice.choice(TOPICS[:3]), f"fuzz@{dice.randrange(50)}"
    subscription = {
        "topic": topic,
        "subString": "*",
        "tagsSet": [],
        "codeSet": [],
        "subVersion": 1,
        "expressionType": "TAG",
    }
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    heartbeat = {"clientID": client, "producerDataSet": [{"groupName": group}], "consumerDataSet": [consumer]}
    properties = dice.choice(PROPERTIES)
    send = {"a": group, "b": topic, "c": "TBW102", "d": "4", "e": str(dice.randrange(4)), "f": "0", "i": properties}
    send |= {"g": "1700000000000", "h": "0", "j": "0", "k": "false"}
    place = {"consumerGroup": group, "topic": topic, "queueId": str(dice.randrange(4))}
    pull = {
        **place,
        "queueOffset": str(dice.randrange(50)),
        "maxMsgNums": "32",
        "sysFlag": str(dice.choice((0, 2, 3, 6, 7))),
        "commitOffset": str(dice.randrange(50)),
        "suspendTimeoutMillis": "15000",
        "subVersion": "1",
        "subscription": "*",
        "expressionType": "TAG",
    }
    offsets = {**place, "commitOffset": str(dice.randrange(50))}
    queues = [{"topic": topic, "brokerName": "broker-a", "queueId": number} for number in range(4)]
    locks = msgspec.json.encode({"consumerGroup": group, "clientId": client, "mqSet": queues})
    leave = {"clientID": client, "producerGroup": group, "consumerGroup": group}
    steps: list[tuple[int, dict[str, str], bytes]] = [
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, b""),
        (RequestCode.HEART_BEAT, {}, msgspec.json.encode(heartbeat)),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}, b""),
        (RequestCode.LOCK_BATCH_MQ, {}, locks),
        (RequestCode.SEND_MESSAGE_V2, send, dice.randbytes(dice.randint(1, 3_000))),
        (RequestCode.PULL_MESSAGE, pull, b""),
        (RequestCode.UPDATE_CONSUMER_OFFSET, offsets, b""),
        (RequestCode.PULL_MESSAGE, pull, b""),
        (RequestCode.UNLOCK_BATCH_MQ, {}, locks),
        (RequestCode.UNREGISTER_CLIENT, leave, b""),
    ]
    whole = [encode_request(code, number, fields, body) for number, (code, fields, body) in enumerate(steps, 1)]
    return whole[: dice.randint(1, len(whole))]
