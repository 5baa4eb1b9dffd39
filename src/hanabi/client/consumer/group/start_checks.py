"""Before a consumer joins its group: the brokers of its topics are found, and one of them is asked about filters.

What brokers refuse is raised; what cannot be reached yet is logged, and tried again by the rebalance.
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


async def introduce(core: Core, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
    """Find the brokers of all topics, so that the first heartbeat reaches them; one must accept each filter."""
    await for_each(partial(_introduce, core, group), list(subscriptions))


async def _introduce(core: Core, group: str, subscription: SubscriptionData) -> None:
    try:
        route = await core.routes.find(subscription.topic)
    except MQError as error:
        if not subscription.topic.startswith(RETRY_PREFIX):  # which is made when the group is first heard of
            logger.warning("group %s starts without %s, trying again: %s", group, subscription.topic, error)
        return
    if subscription.expression_type != TAG:
        await _check_filter(core, group, subscription, route)


async def _check_filter(core: Core, group: str, subscription: SubscriptionData, route: Route) -> None:
    """Ask one broker after the other, in any order, until one has answered."""
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
