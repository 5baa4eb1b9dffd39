"""The table of contents of administration is true."""

import re
from pathlib import Path

from hanabi.broker.handlers.admin import table
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.wire.codes import RequestCode
from tests.broker.handlers.admin.world import ADDRESS, World

ROW = re.compile(r"^ +(\d+)  (\S+)(?: \(5\.x\))? +(\S+\.py)$", re.MULTILINE)


class NoTransactions:
    def resume_check(self, message_id: str) -> PutResult:
        return PutResult(PutStatus.PUT_OK)


def rows() -> dict[int, tuple[str, str]]:
    """Code to name and file, as the table says."""
    return {int(code): (name, file) for code, name, file in ROW.findall(table.__doc__ or "")}


def answered(tmp_path: Path) -> set[int]:
    world = World(tmp_path)
    try:
        return set(
            table.admin_handlers(
                settings=world.settings,
                topics=world.topics,
                groups=world.groups,
                offsets=world.offsets,
                store=world.store,
                stats=world.stats,
                producers=world.producers,
                consumers=world.consumers,
                locks=world.locks,
                filters=world.filters,
                transactions=NoTransactions(),
                handed_out_to=lambda *_: None,
                delay_offsets=dict,
                registered=world.registered,
                wait_ms=lambda: 0,
                now_ms=world.clock,
                address=ADDRESS,
            )
        )
    finally:
        world.close()


def test_what_the_table_says_is_answered_here_is_answered_here_and_nothing_else(tmp_path: Path) -> None:
    here = {code for code, (_, file) in rows().items() if not file.startswith("handlers/")}
    assert here == answered(tmp_path)


def test_the_table_has_the_right_names() -> None:
    assert len(rows()) > 45
    for code, (name, _) in rows().items():
        assert RequestCode(code).name.endswith(name.removeprefix("...")), code


def test_the_files_of_the_table_exist() -> None:
    here = Path(table.__file__).parent
    for _, file in rows().values():
        assert (here.parent.parent / file if file.startswith("handlers/") else here / file).is_file(), file


def test_access_control_is_answered_by_nobody(tmp_path: Path) -> None:
    acl = {code for code in RequestCode if "ACL" in code.name or code.name.startswith("AUTH_")}
    acl.add(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
    assert not acl & answered(tmp_path)
