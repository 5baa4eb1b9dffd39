"""Locks on queues, which ordered consumption needs.

Agrees with Java's LockBatchRequestBody, LockBatchResponseBody and UnlockBatchRequestBody.
"""

from hanabi.message import MessageQueue
from hanabi.wire.body import Body, always_written_new


class LockRequest(Body, frozen=True, kw_only=True):
    """The queues a member of a group wants to lock, or to unlock: both requests look the same."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = always_written_new(list)
    only_this_broker: bool = False  # 5.x only


class LockReply(Body, frozen=True, kw_only=True):
    """The queues that are locked now."""

    lock_ok_mq_set: list[MessageQueue] = always_written_new(list, name="lockOKMQSet")
