"""Access control of calls: the decision of ACL 1.0 and 2.0, with the signature of the gRPC clients.

    authorization: MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX

The signature is the HMAC-SHA1 of the header `x-mq-date-time`. Clients write dates in several forms, so none is parsed.
An empty credential means none. A client certificate that TLS has verified names an account where
`certificateAccountsEnable` says so, as on the broker's own port. An account with a quota is charged for its calls.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from hanabi.access.guard import Source, origin_of
from hanabi.access.guesses import Guesses
from hanabi.access.identity import check_agreement
from hanabi.access.needs import Named
from hanabi.access.quotas.metering import Metering
from hanabi.access.terms import TermsGate
from hanabi.errors import NoPermission
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.rules.faults import CallRefused
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.signature import ACCESS_KEY

_SCHEME: Final = "MQv2-HMAC-SHA1"
_NO_SECRET: Final = (b"of an account that does not exist",)  # so that an unknown account costs as much time


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
    signatures wait as *guesses* says. *metering* has the quotas of accounts. *topic_at* returns the final topic of the
    message at a log offset."""

    def __init__(
        self,
        gates: Sequence[TermsGate],
        refused: Refused,
        topic_at: Callable[[int], str | None],
        guesses: Guesses | None = None,
        metering: Metering | None = None,
    ) -> None:
        self._gates, self._refused, self._guesses, self._metering = tuple(gates), refused, guesses, metering
        self._topic_at = topic_at

    def check(
        self, context: CallContext, code: int, topics: tuple[str, ...] = (), groups: tuple[str, ...] = ()
    ) -> None:
        """Raise UNAUTHORIZED unless each gate's terms are met, TOO_MANY_REQUESTS if the account is over its quota."""
        if context.peer.closed:
            raise CallRefused(Code.UNAUTHORIZED, "the connection is cut off")
        access_key, signature = credential(context.metadata.get("authorization", ""))
        dated = context.metadata.get("x-mq-date-time", "")
        source, named = origin_of(context.peer), Named(topics, groups)
        account: str | None = None
        for gate in self._gates:
            secrets = gate.terms(code, access_key, named, source)
            if access_key is not None and (secrets or secrets is None):
                # The identity before the rights: without the secret, the rights of an account cannot be explored.
                if not _is_signed(dated, signature, secrets or gate.secrets_of(access_key) or _NO_SECRET):
                    delay = self._guessed(context, source.host, access_key)
                    self._refuse(code, access_key, named, source, f"the signature of {access_key} is wrong", delay)
                account = access_key
            if secrets is None:
                self._refuse(code, access_key, named, source, _reason(gate, access_key, source))
            elif access_key is None:
                account = account or gate.certified(source)
        metering = self._metering
        if account is not None and metering is not None and metering.is_on and context.meter is None:
            request = _request(code, account)
            context.meter = metering.admit(account, named, request, context.request_bytes, context.peer)

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

    def _refuse(
        self,
        code: int,
        access_key: str | None,
        named: Named,
        source: Source,
        reason: str,
        delay_seconds: float = 0.0,
    ) -> None:
        self._refused(named, _request(code, access_key), source, reason)
        raise CallRefused(Code.UNAUTHORIZED, reason, delay_seconds)


def _reason(gate: TermsGate, access_key: str | None, source: Source) -> str:
    """Return why *gate* gives no terms."""
    certified = gate.certified(source)
    if access_key is not None:
        try:
            check_agreement(certified, access_key)
        except NoPermission as error:
            return str(error)
    return f"{access_key or certified or 'a client without credentials'} has no right to this"


def _request(code: int, access_key: str | None) -> Command:
    """Return the request that a call stands for, as far as logs show it."""
    if access_key is None:
        return Command(code=code)
    return Command(code=code, raw_fields=msgspec.Raw(msgspec.json.encode({ACCESS_KEY: access_key})))


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
