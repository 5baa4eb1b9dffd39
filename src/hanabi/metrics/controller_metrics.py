"""The metrics of a controller, in addition to those of all servers. Broker names are shown by the leader only."""

from collections.abc import Iterator
from typing import Final

from hanabi.controller.controller import Controller
from hanabi.controller.standing import SetStanding
from hanabi.metrics.exposition import Sample, counter, gauge, labels

_OF_SETS: Final = (
    ("hanabi_controller_master", "1 if the broker name has a master.", "has_master"),
    ("hanabi_controller_master_epoch", "Elections of the broker name so far.", "master_epoch"),
    ("hanabi_controller_replicas", "Replicas of the broker name.", "replicas"),
    ("hanabi_controller_replicas_alive", "Replicas that send heartbeats.", "alive"),
    ("hanabi_controller_replicas_in_sync", "Replicas in sync, the master included.", "in_sync"),
)


def controller_lines(controller: Controller, series_max: int) -> Iterator[str]:
    """Yield the families of *controller*, with at most *series_max* broker names."""
    standing = controller.standing()
    yield from gauge("hanabi_controller_leads", "1 if this controller leads.", int(standing.leads))
    yield from gauge(
        "hanabi_controller_has_leader", "1 if this controller knows a leader.", int(standing.leader is not None)
    )
    yield from counter("hanabi_controller_elections_total", "Masters elected by this controller.", standing.elections)
    yield from counter(
        "hanabi_controller_state_failures_total",
        "Reads and writes of its state that failed.",
        standing.state_failures,
    )
    shown = standing.sets[: max(series_max, 0)]
    for family, about, value in _OF_SETS:
        yield from gauge(family, about, [_sample(each, value) for each in shown])


def _sample(of: SetStanding, value: str) -> Sample:
    return labels(broker=of.name), int(getattr(of, value))
