"""Where to ask about a queue. Agrees with Java's findBrokerAddressInSubscribe and findBrokerAddressInPublish: a broker
that the route does not have is looked for once more, with a fresh route.
"""

from hanabi.client.core import Core
from hanabi.client.routes import MASTER_ID, Route
from hanabi.errors import ConnectError
from hanabi.message import MessageQueue


async def route_with(core: Core, queue: MessageQueue) -> Route:
    """The route of the queue's topic, with its broker in it."""
    route = core.routes.known(queue.topic)
    if route is None or not route.brokers.get(queue.broker_name):
        route = await core.routes.find(queue.topic, fresh=True)
    if not route.brokers.get(queue.broker_name):
        raise ConnectError(
            f"topic {queue.topic}: the name servers ({', '.join(core.config.namesrv_addresses)}) know no broker"
            f" {queue.broker_name} that serves it, only {', '.join(route.brokers) or 'none at all'}"
        )
    return route


async def reading_address(core: Core, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
    """The address of the broker of this id, or of another one of the same name if it is not there."""
    address = (await route_with(core, queue)).address_of(queue.broker_name, broker_id)
    if address is None:
        raise ConnectError(f"topic {queue.topic}: the name servers know no address of broker {queue.broker_name}")
    return address


async def master_address(core: Core, queue: MessageQueue) -> str:
    """The address of the master: it alone knows where the queue ends."""
    address = (await route_with(core, queue)).master_of(queue.broker_name)
    if address is None:
        address = (await core.routes.find(queue.topic, fresh=True)).master_of(queue.broker_name)
    if address is None:
        raise ConnectError(
            f"topic {queue.topic}: the name servers know no master of broker {queue.broker_name} now; is it down?"
        )
    return address
