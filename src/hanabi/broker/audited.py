"""Audit of one broker: lines of refusals, and of requests that change something, with the value before the change."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from hanabi.access.audit_line import Line, Verdict, account_of, asked, is_change, resources_of
from hanabi.access.audit_log import AuditLog
from hanabi.access.guard import Source, origin_of
from hanabi.access.plain.files import PlainFiles
from hanabi.access.policies.directory import Directory
from hanabi.access.policies.wording import acl_info, username_of
from hanabi.broker.parts import Tables
from hanabi.errors import MQError
from hanabi.remoting.connection.dispatch import Handler, Reply, error_reply, settled
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

Previous = Callable[[Any, bytes], Any]  # header and body -> the value that a request changes; None: there is none


_VERDICTS: Final[dict[int, Verdict]] = {ResponseCode.SUCCESS: Verdict.DONE, ResponseCode.NO_PERMISSION: Verdict.REFUSED}


class Audit:
    """Writes refusals and changes to *log*."""

    def __init__(self, log: AuditLog, now_ms: Callable[[], int]) -> None:
        self.log, self._now_ms = log, now_ms

    def refused(self, header: Any, request: Command, source: Source, reason: str) -> None:
        """Note a refusal."""
        self._note(header, request, source, Verdict.REFUSED, reason)

    def audited(self, handlers: Mapping[int, Handler], previous: Mapping[int, Previous]) -> dict[int, Handler]:
        """Return *handlers*; those that change something note it."""
        return {
            code: dataclasses.replace(handler, handle=partial(self._handle, handler.handle, previous.get(code)))
            if is_change(code)
            else handler
            for code, handler in handlers.items()
        }

    def _handle(
        self,
        handle: "Callable[[Any, Command, Connection], Reply | Awaitable[Reply]]",
        previous: Previous | None,
        header: Any,
        request: Command,
        connection: "Connection",
    ) -> Reply | Awaitable[Reply]:
        old = _read(previous, header, request.body)
        try:
            answer = handle(header, request, connection)
        except Exception as error:  # noqa: BLE001 - a failure is an answer, as in `dispatch`
            answer = error_reply(error, request, connection)
        note = partial(self._answered, header, request, origin_of(connection), old)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: note(_reply_of(done)))
            return cast(Awaitable[Reply], answer)
        if isinstance(answer, Reply):
            return note(answer)
        return _then(settled(answer, request, connection), note)

    def _answered(self, header: Any, request: Command, source: Source, old: Any, reply: Reply) -> Reply:
        verdict = _VERDICTS.get(reply.code, Verdict.FAILED)
        self._note(header, request, source, verdict, reply.remark, old, asked(request))
        return reply

    def _note(
        self,
        header: Any,
        request: Command,
        source: Source,
        verdict: Verdict,
        reason: str | None,
        old: Any = None,
        new: Any = None,
    ) -> None:
        line = Line(
            time_ms=self._now_ms(),
            verdict=verdict,
            account=account_of(request),
            address=source.host,
            code=request.code,
            certificate=source.certificate,
            resources=resources_of(header, request.code),
            reason=reason[:500] if reason is not None else None,
            old=old,
            new=new,
        )
        self.log.write(line)


def previous_values(tables: Tables) -> dict[int, Previous]:
    """Return readers of the values that requests about topics, groups and settings change."""

    def topic(header: Any, _: bytes) -> Any:
        return tables.topics.newest(header.topic)

    def group(name: str) -> Any:
        return tables.groups.table().subscription_group_table.get(name)

    def settings(_: Any, body: bytes) -> Any:
        known = dict(_pairs(tables.settings.text()))
        return {key: known.get(key) for key, _ in _pairs(body.decode(errors="replace"))}

    return {
        Code.UPDATE_AND_CREATE_TOPIC: topic,
        Code.DELETE_TOPIC_IN_BROKER: topic,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda _, body: group(
            decode_body(body, SubscriptionGroupConfig).group_name
        ),
        Code.DELETE_SUBSCRIPTIONGROUP: lambda header, _: group(header.group_name),
        Code.UPDATE_BROKER_CONFIG: settings,
    }


def previous_accounts(files: PlainFiles) -> dict[int, Previous]:
    """Return readers of the accounts and white lists that requests change."""

    def account(header: Any, _: bytes) -> Any:
        known = files.rules.accounts.get(header.access_key)
        return None if known is None else known.described()

    return {
        Code.UPDATE_AND_CREATE_ACL_CONFIG: account,
        Code.DELETE_ACL_CONFIG: account,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: lambda _, __: list(files.rules.white_list.patterns),
    }


def previous_policies(directory: Directory) -> dict[int, Previous]:
    """Return readers of the users and policies that requests change."""

    def user(header: Any, _: bytes) -> Any:
        return directory.users.get(header.username)

    def acl(header: Any, _: bytes) -> Any:
        username = username_of(header.subject)
        return acl_info(username, directory.acls[username]) if username in directory.acls else None

    return {
        **dict.fromkeys((Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER), user),
        **dict.fromkeys((Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL), acl),
    }


def _read(previous: Previous | None, header: Any, body: bytes) -> Any:
    if previous is None:
        return None
    try:
        return msgspec.to_builtins(previous(header, bytes(body)), str_keys=True)
    except (MQError, ValueError, TypeError, AttributeError):  # a bad request, which its handler refuses
        return None


def _pairs(text: str) -> list[tuple[str, str]]:
    lines = (line.partition("=") for line in text.splitlines() if "=" in line)
    return [(key.strip(), value.strip()) for key, _, value in lines]


def _reply_of(done: "asyncio.Future[Reply]") -> Reply:
    """Return the reply, as far as the audit needs it. The client of a cancelled one has gone; it may be done."""
    if done.cancelled():
        return Reply(ResponseCode.SYSTEM_ERROR, "the client has gone")
    error = done.exception()
    return done.result() if error is None else Reply(ResponseCode.SYSTEM_ERROR, str(error))


async def _then(answer: Awaitable[Reply], note: Callable[[Reply], Reply]) -> Reply:
    return note(await answer)
