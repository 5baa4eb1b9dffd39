"""The reply to a pop, taken apart: messages with their receipts and attempts."""

from hanabi.grpc.backend.backend import fields_of
from hanabi.grpc.rules.handles import Handle
from hanabi.message import StoredMessage
from hanabi.remoting.connection.dispatch import Reply
from hanabi.wire.message import property_names as names
from hanabi.wire.message.stored import to_messages
from hanabi.wire.receipts import Receipt, issued_receipt, mark_of, parse_order_counts, parse_start_offsets


class Delivery:
    """One message of a pop: the record, its receipt, and the deliveries so far, with this one."""

    __slots__ = ("attempt", "handle", "stored")

    def __init__(self, stored: StoredMessage, handle: Handle, attempt: int) -> None:
        self.stored, self.handle, self.attempt = stored, handle, attempt


def deliveries(reply: Reply, broker_name: str) -> list[Delivery]:
    """Return the messages in the reply to a pop. Those behind one that cannot be read come again later."""
    fields = fields_of(reply)
    body = reply.body
    records = b"".join(body) if isinstance(body, list) else bytes(body)
    stored, error = to_messages(records, broker_name)
    if error is not None and not stored:
        raise error
    starts = parse_start_offsets(fields.get("startOffsetInfo"))
    counts = parse_order_counts(fields.get("orderCountInfo"))
    pop_ms, invisible_ms = int(fields["popTime"]), int(fields["invisibleTime"])
    revive_queue = int(fields["reviveQid"])
    found = []
    for each in stored:
        mark = mark_of(each.topic)
        receipt = issued_receipt(each.properties.get(names.POP_CK), pop_ms, each.queue_id, each.queue_offset)
        if receipt is None:
            start = starts.get((mark, each.queue_id), each.queue_offset)
            where = mark, broker_name, each.queue_id, each.queue_offset
            receipt = Receipt(start, pop_ms, invisible_ms, revive_queue, *where)
        tries = counts.get((mark, each.queue_id, each.queue_offset), each.reconsume_times)
        found.append(Delivery(each, Handle(receipt, each.log_offset), tries + 1))
    return found
