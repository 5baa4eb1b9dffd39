"""Every exception that Hanabi raises on purpose, in one tree.

    MQError                       base of all: `code` on the wire, and whether it is `retriable`
    ├── ConfigError               a setting or a command-line value is wrong: the message names its key
    ├── RemoteProtocolError       the peer broke the wire format
    ├── TransportError            the bytes may not have arrived: it is unknown whether the peer acted on them
    │   ├── ConnectError          no connection: nothing was sent
    │   ├── ConnectionLostError   the connection went away while an answer was pending
    │   ├── RequestTimeoutError   no answer in time
    │   └── TooManyRequestsError  this side's own limit of pending requests: nothing was sent
    ├── BrokerError               a server refused; one class for each response code that programs distinguish
    ├── InvalidMessage            no broker would accept this message: detected before it was sent
    ├── SendFailed                a message was not sent, or that is unknown: lists the attempts and their results
    ├── KeyStoreFailed            the key store of `deduplicate` cannot be used: nothing was consumed
    ├── StateUnavailable          the controller's state cannot be read or written, or is not the one it was
    ├── BlockingCallError         a blocking call that cannot wait: on the clients' own loop, after a fork, at the end
    └── StoreError                the message store cannot do the operation
        ├── StoreFull             the disk or the quota has no room: nothing of the message was stored
        ├── StoreUnwritable       the directory or the device refuses to be written
        ├── StoreLocked           another process has this directory
        ├── StoreClosed           the store is closed, or was never opened
        ├── StoreIsCopy           the store copies that of a master, so it takes no messages of its own
        ├── StoreDamaged          a file is missing, has a wrong size, or holds invalid data
        ├── LogDiverged           a master's bytes do not continue the log of its slave: nothing of them was stored
        └── MessageRefused        the message is larger than the store's limits

The numbers are those of `hanabi.wire.codes.ResponseCode`, written out because this module imports no other module of
Hanabi; a test compares the two.
"""

import errno
from typing import ClassVar, NamedTuple


class MQError(Exception):
    """Base of all exceptions that Hanabi raises on purpose."""

    retriable: bool = False  # of the class, if all its instances are alike
    code: ClassVar[int] = 1


class ConfigError(MQError):
    """A setting or a command-line value is wrong. The message names the key and valid values."""


class RemoteProtocolError(MQError):
    """The peer broke the wire format."""


class TransportError(MQError):
    """The bytes may not have arrived: it is unknown whether the peer acted on them."""

    retriable = True


class ConnectError(TransportError):
    """No connection could be made, so nothing was sent."""


class ConnectionLostError(TransportError):
    """The connection went away while an answer was pending."""


class RequestTimeoutError(TransportError):
    """No answer came in time."""


class TooManyRequestsError(TransportError):
    """Too many requests wait for an answer on this connection, so this one was not sent."""


class BrokerError(MQError):
    """A server refused a request. Raised in a handler, and raised again in the client from the response code."""

    by_code: ClassVar[dict[int, type["BrokerError"]]] = {}

    def __init_subclass__(cls) -> None:
        if "code" in vars(cls):  # classes that only group other classes have none
            BrokerError.by_code[cls.code] = cls

    @staticmethod
    def from_reply(code: int, remark: str | None, *, asked: str) -> "BrokerError":
        """Return the exception for a reply with *code*; *asked* describes the request and its receiver."""
        kind = BrokerError.by_code.get(code)
        message = f"{asked}: {remark or 'no reason given'} (code {code})"
        return kind(message) if kind else UnknownReplyError(message, code)


class UnknownReplyError(BrokerError):
    """A response code that has no class of its own, or the general code 1; see `reply_code`."""

    def __init__(self, message: str, reply_code: int = 1) -> None:
        super().__init__(message)
        self.reply_code = reply_code


class SystemBusy(BrokerError):
    """The server is overloaded; retry later."""

    code = 2
    retriable = True


class RequestCodeNotSupported(BrokerError):
    """The server has no handler for this request."""

    code = 3


class NoPermission(BrokerError):
    """The topic, the group or the setting does not allow this."""

    code = 16


class TopicNotExist(BrokerError):
    """No broker serves this topic."""

    code = 17
    retriable = True


class QueryNotFound(BrokerError):
    """Nothing is stored under this name."""

    code = 22


class InvalidParameter(BrokerError):
    """The request is impossible or not allowed; a retry will not help."""

    code = 29


class SubscriptionParseFailed(BrokerError):
    """The expression of a subscription cannot be parsed; the message says where and why."""

    code = 23


class SubscriptionGroupNotExist(BrokerError):
    """The broker knows no such consumer group, and creates none."""

    code = 26


class ControllerNotLeader(BrokerError):
    """Another controller leads; ask it. Nothing was changed."""

    code = 2007
    retriable = True


class InvalidMessage(MQError):
    """No broker would accept this message, so it was not sent. The text names the limit."""

    code = 13


class SendAttempt(NamedTuple):
    """One attempt to send a message: its target and its result."""

    broker_name: str
    address: str | None  # None: the route knows no master of that name
    error: Exception


class SendFailed(MQError):
    """A message was not sent. The text has the topic, every broker that was tried, the time it took, and what to do.

    The last error is its cause. `maybe_stored` says that a broker may have stored the message: its response never came,
    so sending the message again may store it twice. `retriable` says whether sending it again can help: not if the last
    broker has refused the message for good. `sent` counts the messages of a batch that are stored, and `stored` has
    their positions: those before the first failure, but in a batch with ordering keys those of some queues.
    """

    def __init__(
        self, text: str, *, topic: str, attempts: tuple[SendAttempt, ...] = (), retriable: bool = True
    ) -> None:
        super().__init__(text)
        self.retriable = retriable
        self.sent = 0
        self.stored: tuple[int, ...] = ()
        self.topic = topic
        self.attempts = attempts

    @property
    def maybe_stored(self) -> bool:
        unknown = (ConnectionLostError, RequestTimeoutError)
        return any(isinstance(attempt.error, unknown) for attempt in self.attempts)


class BodyNotDecoded(MQError):
    """The body of a message is no value of the codec. The text names the message; the cause is the decoder's error."""


class KeyStoreFailed(MQError):
    """The store of `deduplicate` cannot be used. Nothing was consumed: the messages are redelivered."""

    retriable = True


class StateUnavailable(MQError):
    """The controller's state cannot be read or written: etcd does not answer, has no quorum, or lost its data."""

    retriable = True


class BlockingCallError(MQError):
    """A blocking call where it cannot wait: on the clients' own event loop, in a child of os.fork(), or at exit."""


class StoreError(MQError):
    """The message store cannot do the operation."""

    @staticmethod
    def from_os_error(error: OSError, doing: str) -> "StoreError":
        """Return the exception for an error of the operating system while *doing* something ("creating FILE")."""
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreFull(f"no room on the disk for {doing}: {reason}")
        return StoreUnwritable(f"{doing} failed: {reason}")


class StoreFull(StoreError):
    """The disk or the quota has no room, so nothing of the message was stored. Works again when there is room."""

    code = 14
    retriable = True


class StoreUnwritable(StoreError):
    """The directory is read-only, the permission is missing, or the device failed."""

    code = 14
    retriable = True


class StoreLocked(StoreError):
    """Another process has this directory open as its store."""


class StoreClosed(StoreError):
    """The store is closed, or was never opened."""

    code = 14
    retriable = True


class StoreIsCopy(StoreError):
    """The store copies that of a master, so it takes no messages of its own."""

    code = 14


class StoreDamaged(StoreError):
    """A file of the store is missing, has a wrong size, or holds invalid data. The message names the file."""

    code = 14
    retriable = True


class LogDiverged(StoreError):
    """Bytes of a master do not continue the log of its slave. Nothing of them was stored."""


class MessageRefused(StoreError):
    """The message is larger than the limits of the store allow; it would be refused again."""

    code = 13
