"""Parser of a consumer's subscription text. Pure.

Agrees with Java's FilterAPI.build and ExpressionType.isTagType.
"""

from typing import Final

from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.message.tags import subscribed_tags

ALL_TAGS: Final = "*"
TAG: Final = "TAG"


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether the type is the old one, tags separated by bars; all other types are expressions."""
    return not expression_type or expression_type == TAG


def parse_subscription(topic: str, text: str | None, expression_type: str | None, version: int) -> SubscriptionData:
    """Return the subscription to *topic*; raise ValueError with the reason. Expressions are not parsed."""
    if expression_type is not None and expression_type != TAG:
        if not text:
            raise ValueError(f"there is no expression of type {expression_type}")
        return SubscriptionData(topic=topic, sub_string=text, expression_type=expression_type, sub_version=version)
    if not text or text == ALL_TAGS:
        return SubscriptionData(topic=topic, sub_string=ALL_TAGS, sub_version=version)
    if not text.strip("|") and len(text) % 2 == 0:
        raise ValueError(f"there is no tag in {text!r}")
    tags, codes = subscribed_tags(text)
    return SubscriptionData(topic=topic, sub_string=text, tags_set=tags, code_set=codes, sub_version=version)
