from collections.abc import Callable

from hanabi.broker.fast_path._frames import ReplyTemplate
from hanabi.broker.fast_path.contract import Peer, SendAnswers
from hanabi.broker.send.intake import Intake
from hanabi.broker.send.rules import SendRules
from hanabi.broker.send.targets import SendTargets
from hanabi.store.fast_path._appends import RunWriter

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
    def answer(self, data: bytes, connection: Peer, /) -> SendAnswers: ...
