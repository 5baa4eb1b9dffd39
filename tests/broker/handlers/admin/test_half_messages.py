"""An administrator has a half message asked about again."""

from pathlib import Path

from hanabi.broker.handlers.admin.half_messages import half_message_handlers
from hanabi.errors import QueryNotFound
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.transaction import ResumeCheckHalfMessageHeader
from tests.broker.handlers.admin.world import World, asking


class HalfMessages:
    """Knows one id; its store is full."""

    def __init__(self) -> None:
        self.resumed: list[str] = []

    def resume_check(self, message_id: str) -> PutResult:
        if message_id == "unknown":
            raise QueryNotFound("no message is there")
        self.resumed.append(message_id)
        if message_id == "full":
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="the disk is full")
        return PutResult(PutStatus.PUT_OK)


async def test_the_answer_says_whether_the_message_will_be_asked_about(tmp_path: Path) -> None:
    halves = HalfMessages()

    def handlers(_: World) -> dict[int, Handler]:
        return half_message_handlers(halves)

    async with asking(tmp_path, handlers) as (_, admin):
        code = RequestCode.RESUME_CHECK_HALF_MESSAGE
        await admin.ask(code, ResumeCheckHalfMessageHeader(msg_id="good"))
        assert halves.resumed == ["good"]
        refused, _ = await admin.refused(code, ResumeCheckHalfMessageHeader(msg_id="unknown"))
        assert refused == ResponseCode.QUERY_NOT_FOUND
        refused, remark = await admin.refused(code, ResumeCheckHalfMessageHeader(msg_id="full"))
        assert refused == ResponseCode.SYSTEM_ERROR
        assert "the disk is full" in remark
