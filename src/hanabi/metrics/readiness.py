"""The readiness of a server for work: independent checks, each with a reason if it fails.

A server that is not ready may still be healthy: it recovers, its disk is full, no name server knows it. Restarting it
would not help, so /health does not run these checks.
"""

from typing import Final

from hanabi.broker.broker import Broker
from hanabi.controller.controller import Controller

STARTING: Final = "it is starting: the store is being opened"
STOPPING: Final = "it is stopping"
OK: Final = "ok"


def broker_checks(broker: Broker) -> dict[str, str]:
    """Return the checks of a running broker: `ok`, or the reason for a failure."""
    return {"broker": OK, "disk": _disk(broker), "registered": _registered(broker)}


def controller_checks(controller: Controller) -> dict[str, str]:
    """Return the checks of a running controller: one that follows a leader is ready, too."""
    standing = controller.standing()
    if standing.leads or standing.leader is not None:
        return {"controller": OK}
    return {
        "controller": "no controller leads: its state cannot be reached, or is that of another cluster (see the log)"
    }


def _disk(broker: Broker) -> str:
    return "the disk is too full: no message is taken" if broker.store.retention.refuses else OK


def _registered(broker: Broker) -> str:
    """Check that at least one name server knows the broker; one is enough, as clients ask any of them."""
    addresses = broker.settings.broker.namesrv_addresses
    if broker.registration.registered:
        return OK
    if not addresses:
        return (
            "no name server is set, so clients cannot find this broker: --namesrv, namesrvAddr or NAMESRV_ADDR sets one"
        )
    return f"none of the name servers {', '.join(addresses)} knows this broker"
