"""Access control of calls: the decision of ACL 1.0 and 2.0, with the signature of the gRPC clients.

    authorization: MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX

The signature is the HMAC-SHA1 of the header `x-mq-date-time`. Clients write dates in several forms, so none is parsed.
An empty credential means none.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from hanabi.access.guard import Source, source_of
from hanabi.access.guesses import Guesses
from hanabi.access.needs import Named
from hanabi.access.terms import TermsGate
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.faults import CallRefused
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command

_SCHEME: Final = "MQv2-HMAC-SHA1"


class Doorkeeper(Protocol):
    """The check before each call."""

    def check(
        self, context: CallContext, code: int, topics: tuple[str, ...] = (), groups: tuple[str, ...] = ()
    ) -> None:
        """Raise if the client may not do what requests of *code* do, to these topics and groups."""

    def check_half(self, context: CallContext, log_offset: int) -> None:
        """Raise if the client may not end the transaction of the half message at *log_offset*."""


class OpenDoor:
    """No access control."""

    def check(
        self, context: CallContext, code: int, topics: tuple[str, ...] = (), groups: tuple[str, ...] = ()
    ) -> None:
        """Allow everything."""

    def check_half(self, context: CallContext, log_offset: int) -> None:
        """Allow everything."""


Refused = Callable[[object, Command, Source, str], None]


class GuardedDoor:
    """Access control by *gates*, all of which must agree; *refused* is told of each refusal. Answers to wrong
    signatures wait as *guesses* says. *topic_at* returns the final topic of the message at a log offset."""

    def __init__(
        self,
        gates: Sequence[TermsGate],
        refused: Refused,
        topic_at: Callable[[int], str | None],
        guesses: Guesses | None = None,
    ) -> None:
        self._gates, self._refused, self._guesses = tuple(gates), refused, guesses
        self._topic_at = topic_at

    def check(
        self, context: CallContext, code: int, topics: tuple[str, ...] = (), groups: tuple[str, ...] = ()
    ) -> None:
        """Raise UNAUTHORIZED unless each gate's terms are met."""
        if context.peer.closed:
            raise CallRefused(Code.UNAUTHORIZED, "the connection is cut off")
        access_key, signature = credential(context.metadata.get("authorization", ""))
        dated = context.metadata.get("x-mq-date-time", "")
        source, named = source_of(context.peer.peer), Named(topics, groups)
        for gate in self._gates:
            secrets = gate.terms(code, access_key, named, source)
            if secrets is None:
                self._refuse(code, source, f"{access_key or 'a client without credentials'} has no right to this")
            elif secrets and not _is_signed(dated, signature, secrets):
                delay = self._guessed(context, source.host, access_key)
                self._refuse(code, source, f"the signature of {access_key} is wrong", delay)

    def check_half(self, context: CallContext, log_offset: int) -> None:
        """Check the right to send to the topic of the half message, as the gates of remoting do: the topic in the
        request is the client's word."""
        topic = self._topic_at(log_offset)
        self.check(context, RequestCode.END_TRANSACTION, (topic,) if topic is not None else ())

    def _guessed(self, context: CallContext, host: str, access_key: str | None) -> float:
        """Return how long the answer waits. A client with too many such answers is cut off."""
        if self._guesses is None:
            return 0.0
        delay = self._guesses.failed(host, access_key)
        if delay > 0 and not self._guesses.wait(host, delay):
            context.peer.drop()
        return delay

    def _refuse(self, code: int, source: Source, reason: str, delay_seconds: float = 0.0) -> None:
        self._refused(None, Command(code=code), source, reason)
        raise CallRefused(Code.UNAUTHORIZED, reason, delay_seconds)


def credential(header: str) -> tuple[str | None, str]:
    """Return access key and signature of an `authorization` header; no key if there is none."""
    scheme, _, rest = header.partition(" ")
    if scheme != _SCHEME:
        return None, ""
    parts: dict[str, str] = {}
    for part in rest.split(","):
        name, _, value = part.strip().partition("=")
        parts[name] = value
    key = parts.get("Credential", "").partition("/")[0]
    return key or None, parts.get("Signature", "")


def _is_signed(dated: str, signature: str, secrets: tuple[bytes, ...]) -> bool:
    given, text = signature.lower().encode(), dated.encode()
    return any(hmac.compare_digest(hmac.new(secret, text, "sha1").hexdigest().encode(), given) for secret in secrets)
