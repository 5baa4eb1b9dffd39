"""Headers of the requests to a broker about its consumer groups. Numbers are request codes.

Requests about the members of a group, rather than about the group, are in `hanabi.wire.headers.client`.
"""

from hanabi.wire.headers.addressed import AddressedHeader


class DeleteSubscriptionGroupHeader(AddressedHeader, frozen=True, kw_only=True):
    """207: forget a group; its offsets too, if one of the flags says so."""

    group_name: str
    remove_offset: bool = False  # 4.9.8's name
    clean_offset: bool | None = None  # 5.x's name

    @property
    def forget_offsets(self) -> bool:
        """True if either flag, 4.9.8's or 5.x's, asks for it."""
        return self.remove_offset or bool(self.clean_offset)


class GetConsumeStatsHeader(AddressedHeader, frozen=True, kw_only=True):
    """208: the offsets of a group in each queue, in all its topics or only in some."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # 5.x: several, separated by semicolons; `topic` then does not count


class QueryConsumeTimeSpanHeader(AddressedHeader, frozen=True, kw_only=True):
    """303: for each queue of a topic, from when the messages are and up to when a group has consumed them."""

    topic: str
    group: str


class QueryTopicsByConsumerHeader(AddressedHeader, frozen=True, kw_only=True):
    """343, 5.x: the topics in which a group has offsets."""

    group: str


class QuerySubscriptionByConsumerHeader(AddressedHeader, frozen=True, kw_only=True):
    """345, 5.x: a group's subscription to a topic."""

    group: str
    topic: str | None = None


class GetSubscriptionGroupConfigHeader(AddressedHeader, frozen=True, kw_only=True):
    """352, 5.x: the settings of one group."""

    group: str


class UpdateGroupForbiddenHeader(AddressedHeader, frozen=True, kw_only=True):
    """353, 5.x: allow or forbid a group to read a topic; absent: only ask."""

    group: str
    topic: str
    readable: bool | None = None
