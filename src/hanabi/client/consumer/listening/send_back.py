"""Redelivery of failed messages through the group's retry topic.

First the broker that has the message is asked to put it into the retry topic. If it cannot, a copy is sent there, to
any broker that accepts it. If that fails too, the caller keeps the message and retries itself.

Agrees with sendMessageBack of DefaultMQPushConsumerImpl and of ConsumeMessageOrderlyService, header for header.
"""

import logging
import random
from typing import Final

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.routes import DEFAULT_TOPIC_QUEUES
from hanabi.client.consumer.listening.listener import DEAD_LETTER
from hanabi.errors import ConnectError, MQError, TopicNotExist
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageV2Header
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.properties import format_properties
from hanabi.wire.system_names import DEFAULT_TOPIC

TIMEOUT_S: Final = 5.0
FIRST_DELAY_LEVEL: Final = 3  # 10 s with the default delay levels
PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"  # name of the internal producer in Java's clients

# Properties that a client or broker added for this delivery only.
_PASSING: Final = frozenset(
    {
        names.MIN_OFFSET,
        names.MAX_OFFSET,
        names.CONSUME_START_TIME,
        names.TRANSACTION_PREPARED,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
    }
)

logger = logging.getLogger(__name__)


def copy_properties(message: StoredMessage, topic: str, delay_level: int) -> dict[str, str]:
    """Return the properties for a copy of *message*, originally in *topic*, to the retry topic. Pure."""
    kept = {name: value for name, value in message.properties.items() if name not in _PASSING}
    return {
        **kept,
        names.ORIGIN_MESSAGE_ID: kept.get(names.ORIGIN_MESSAGE_ID) or message.message_id,
        names.RETRY_TOPIC: topic,
        names.DELAY_LEVEL: str(delay_level),
    }


class SendBack:
    """Redelivery for one group. *retry_topic* is its name on the wire."""

    def __init__(self, core: Core, group: str, retry_topic: str, *, reconsume_times_max: int, unit_mode: bool) -> None:
        self._core, self._group, self._retry_topic = core, group, retry_topic
        self._max = reconsume_times_max
        self._unit_mode = unit_mode

    async def send_back(self, message: StoredMessage, topic: str, broker_name: str, delay_level: int) -> None:
        """Have *message* redelivered; raise when no broker accepted it. *topic* is its own, as on the wire."""
        if not message.sys_flag & sysflag.INNER_BATCH:  # for an inner batch the broker would find the whole batch
            try:
                await self._ask_its_broker(message, topic, broker_name, delay_level)
            except MQError as error:
                logger.warning("%s: sending a copy to %s instead", error, self._retry_topic)
            else:
                return
        times = self._max if delay_level == DEAD_LETTER else message.reconsume_times + 1
        level = delay_level if delay_level > 0 else FIRST_DELAY_LEVEL + message.reconsume_times
        await self.send_copy(message, topic, reconsume_times=times, delay_level=level)

    async def _ask_its_broker(self, message: StoredMessage, topic: str, broker_name: str, delay_level: int) -> None:
        address = self._core.routes.master_of(broker_name)
        if address is None:
            raise ConnectError(
                f"message {message.message_id} cannot be sent back to {broker_name}: it has no master now"
            )
        header = ConsumerSendMsgBackHeader(
            offset=message.log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=topic,
            unit_mode=self._unit_mode,
            max_reconsume_times=self._max,
            target_broker=broker_name,
        )
        await self._core.api.send_back(address, header, TIMEOUT_S)

    async def send_copy(self, message: StoredMessage, topic: str, *, reconsume_times: int, delay_level: int) -> None:
        """Store a copy of *message* in the retry topic; a broker that sees the limit reached makes it a dead letter."""
        text = format_properties(copy_properties(message, topic, delay_level))
        failure: MQError | None = None
        for queue in await self._targets():
            address = self._core.routes.master_of(queue.broker_name)
            if address is None:
                continue
            header = SendMessageV2Header(
                producer_group=PRODUCER_GROUP,
                topic=self._retry_topic,
                default_topic=DEFAULT_TOPIC,
                default_topic_queue_nums=DEFAULT_TOPIC_QUEUES,
                queue_id=queue.queue_id,
                sys_flag=0,
                born_timestamp=message.born_timestamp_ms,
                flag=message.flag,
                properties=text,
                reconsume_times=reconsume_times,
                unit_mode=self._unit_mode,
                max_reconsume_times=self._max,
            )
            try:
                await self._core.api.send_message(address, header, message.body, TIMEOUT_S)
            except MQError as error:
                failure = error
            else:
                return
        raise failure or TopicNotExist(f"no broker accepts messages for {self._retry_topic} now")

    async def _targets(self) -> list[MessageQueue]:
        """Return a queue of each broker that has the retry topic, in random order."""
        route = await self._core.routes.find(self._retry_topic)
        queues = random.sample(route.write_queues, len(route.write_queues))
        return list({queue.broker_name: queue for queue in queues}.values())
