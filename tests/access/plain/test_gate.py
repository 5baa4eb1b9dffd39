"""Verdicts that are kept: the same as new ones, forgotten with their rules, and bounded."""

from pathlib import Path

import pytest

from hanabi.access.guard import source_of
from hanabi.access.names import Surroundings
from hanabi.access.plain import gate as gate_module
from hanabi.access.plain.files import PlainFiles
from hanabi.access.plain.gate import PlainGate
from hanabi.errors import NoPermission
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.header import header_fields
from hanabi.wire.headers.offset import GetMaxOffsetHeader
from hanabi.wire.signature import ACCESS_KEY, SIGNATURE, signature

SOURCE = source_of("10.1.2.3:4000")
RULES = "accounts:\n- accessKey: orders-app\n  secretKey: secret-of-orders\n  defaultTopicPerm: {}\n"


class Site:
    """A gate and its file."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.files = PlainFiles(home, now_ms=lambda: 0)
        self.write("SUB")
        self.files.load()
        self.gate = PlainGate(self.files, Surroundings("c", "c_REPLY_TOPIC", lambda _: None))

    def write(self, permission: str) -> None:
        (self._home / "plain_acl.yml").write_text(RULES.format(permission))

    def allows(self, topic: str, secret: str = "secret-of-" + "orders") -> bool:
        header = GetMaxOffsetHeader(topic=topic, queue_id=0)
        fields = {**header_fields(header), ACCESS_KEY: "orders-app"}
        fields[SIGNATURE] = signature(fields, b"", secret)
        request = decode_command(encode_request(RequestCode.GET_MAX_OFFSET, 1, fields)[4:])
        try:
            self.gate.check(header, request, SOURCE)
        except NoPermission:
            return False
        return True


def test_a_kept_verdict_excuses_no_wrong_signature(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.allows("T")
    assert site.allows("T")
    assert not site.allows("T", "wrong-secret")


def test_verdicts_are_forgotten_with_their_rules(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.allows("T")
    site.write("DENY")
    site.files.refresh()
    assert not site.allows("T")
    site.write("PUB|SUB")
    site.files.refresh()
    assert site.allows("T")


def test_verdicts_are_bounded_in_number_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "VERDICTS_MAX", 10)
    site = Site(tmp_path)
    assert site.allows("x" * 513)
    assert site.gate.verdicts_kept == 0
    for number in range(35):
        assert site.allows(f"T{number}")
        assert site.gate.verdicts_kept <= 10
