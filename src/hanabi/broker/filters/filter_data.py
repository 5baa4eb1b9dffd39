"""Compiled filter expression of one group on one topic. A value: a change makes a new one.

Agrees with ConsumerFilterData.java.
"""

import msgspec

from hanabi.broker.filters.bloom import BloomPositions, bit_mask
from hanabi.broker.filters.sql.compiled import CompiledSql, compile_sql
from hanabi.broker.filters.sql.rule import CompiledRule, compile_rule
from hanabi.errors import SubscriptionParseFailed
from hanabi.wire.bodies.heartbeat import RULE, SQL92


class FilterData(msgspec.Struct, frozen=True, kw_only=True):
    """A group's expression on a topic, compiled.

    `born_ms` is the time from which it counts: bits of older messages do not include it. It is dead once the group has
    no members, but kept for a day: bits are set for it meanwhile.
    """

    topic: str
    group: str
    expression: str
    expression_type: str
    client_version: int
    compiled: CompiledSql | CompiledRule
    born_ms: int = 0
    dead_ms: int = 0
    bloom: BloomPositions | None = None
    mask: int = 0  # the bits of `bloom`

    @staticmethod
    def build(
        topic: str,
        group: str,
        expression: str,
        expression_type: str,
        client_version: int,
        *,
        born_ms: int = 0,
        dead_ms: int = 0,
        bloom: BloomPositions | None = None,
    ) -> "FilterData":
        """Compile *expression*; raise SubscriptionParseFailed with the reason. Without *bloom* bits are not used."""
        if expression_type not in (SQL92, RULE):
            raise SubscriptionParseFailed(
                f"expressions of type {expression_type[:40]!r} are unknown: TAG, SQL92 and RULE are not"
            )
        if expression_type == RULE:
            bloom = None  # bits are set from properties alone
        return FilterData(
            topic=topic,
            group=group,
            expression=expression,
            expression_type=expression_type,
            client_version=client_version,
            compiled=compile_rule(expression) if expression_type == RULE else compile_sql(expression),
            born_ms=born_ms,
            dead_ms=dead_ms,
            bloom=bloom,
            mask=bit_mask(bloom) if bloom is not None else 0,
        )

    @property
    def is_dead(self) -> bool:
        return self.dead_ms >= self.born_ms
