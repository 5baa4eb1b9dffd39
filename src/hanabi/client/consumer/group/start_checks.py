"""Checks before a consumer joins its group: find the brokers of its topics, and have one check each filter.

Refusals by brokers are raised; unreachable brokers are logged, and the rebalance retries.
"""

import logging
import random
from collections.abc import Iterable
from functools import partial

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.routes import Route
from hanabi.client.for_each import for_each
from hanabi.errors import MQError, TransportError
from hanabi.wire.bodies.heartbeat import TAG, SubscriptionData
from hanabi.wire.system_names import RETRY_PREFIX

logger = logging.getLogger(__name__)


async def check_subscriptions(core: Core, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
    """Find the brokers of all topics, so that the first heartbeat reaches them; one must accept each filter."""
    await for_each(partial(_check_subscription, core, group), list(subscriptions))


async def _check_subscription(core: Core, group: str, subscription: SubscriptionData) -> None:
    try:
        route = await core.routes.find(subscription.topic)
    except MQError as error:
        if not subscription.topic.startswith(RETRY_PREFIX):  # a retry topic is created when the group first registers
            logger.warning("group %s starts without %s, retrying: %s", group, subscription.topic, error)
        return
    if subscription.expression_type != TAG:
        await _check_filter(core, group, subscription, route)


async def _check_filter(core: Core, group: str, subscription: SubscriptionData, route: Route) -> None:
    """Ask the brokers one after the other, in random order, until one has answered."""
    for name in random.sample(sorted(route.brokers), len(route.brokers)):
        address = route.address_of(name)
        if address is None:
            continue
        try:
            await core.api.check_client(address, core.client_id, group, subscription)
        except TransportError as error:
            logger.warning(
                "group %s: the filter of %s is not checked by %s: %s", group, subscription.topic, name, error
            )
        else:
            return
