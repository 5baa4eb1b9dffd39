from collections.abc import Callable

from hanabi.broker.fast_path._admission import Admission
from hanabi.broker.fast_path._frames import ReplyTemplate
from hanabi.broker.fast_path.contract import Peer
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.targets import SendTargets
from hanabi.store.fast_path._appends import RunWriter
from hanabi.store.fast_path.store_side import StoredInQueue

class FastSends:
    def __init__(
        self,
        writer: RunWriter,
        rules: SendRules,
        targets: SendTargets,
        intake: Intake,
        host_of_peer: Callable[[str], bytes],
        reply_template: Callable[[str, str], ReplyTemplate | None],
    ) -> None: ...
    @property
    def taken(self) -> int: ...
    @property
    def declined(self) -> dict[int, int]: ...
    def collect(self) -> tuple[list[StoredInQueue], float]: ...
    def guard(self, admission: Admission) -> None: ...
    def answer(self, data: bytes, connection: Peer, /) -> tuple[bytes | None, int, tuple[int, ...]]: ...
