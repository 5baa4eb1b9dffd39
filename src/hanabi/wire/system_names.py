"""Names with a meaning of their own: topics and groups of the brokers, prefixes, limits of length.

Agrees with Java's TopicValidator and MixAll. Brokers, clients, tools and Spark all read them from here.
"""

from typing import Final

TOPIC_CHARACTERS_MAX: Final = 127
GROUP_CHARACTERS_MAX: Final = 255

RETRY_PREFIX: Final = "%RETRY%"  # of a group's topic for messages to be consumed again
DEAD_LETTER_PREFIX: Final = "%DLQ%"  # of a group's topic for messages that are not tried again
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
MEMBER_GROUP_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"  # 5.x: of a topic whose route has the brokers of one name

DEFAULT_TOPIC: Final = "TBW102"  # the template of a new topic when a producer names no other
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"  # messages with a delay level, until they are due
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"  # timed messages of 5.x, until they are due
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # every broker has it, even without automatic creation of groups

SYSTEM_TOPICS: Final = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRACE_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
# Brokers keep their own state in these, and clients may not send to them.
CLOSED_TOPICS: Final = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)


def is_system(name: str) -> bool:
    """Return whether a topic or a group of this name belongs to the brokers."""
    return name in SYSTEM_TOPICS or name.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX))
