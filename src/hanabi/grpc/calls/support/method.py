"""Methods of the service: name, messages, form, and the function that answers."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Protocol

import msgspec

from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.proto.messages import Proto


class Form(Enum):
    """Forms of a method."""

    UNARY = "one message, one reply"
    STREAM = "one message, several replies"
    BOTH_WAYS = "messages and replies at any time"


class Conversation(Protocol):
    """One call that goes both ways."""

    def received(self, message: Proto) -> None:
        """Take a message of the client."""

    def ended(self) -> None:
        """The client sends no more, or the stream is lost."""


class Method(msgspec.Struct, frozen=True):
    """One method. `handle` takes the request and the context: it returns or awaits the reply, of a STREAM a list. Of
    BOTH_WAYS it takes the context, a function that sends and one that ends with a status of gRPC, and returns a
    `Conversation`."""

    name: str
    form: Form
    handle: Callable[..., Any]

    @property
    def request(self) -> str:
        """The name of the request's message."""
        return "TelemetryCommand" if self.form is Form.BOTH_WAYS else f"{self.name}Request"

    @property
    def reply(self) -> str:
        """The name of the reply's message."""
        return "TelemetryCommand" if self.form is Form.BOTH_WAYS else f"{self.name}Response"


Unary = Callable[[Proto, CallContext], Proto | Awaitable[Proto]]
