"""States and living brokers for tests of the controller's decisions."""

from hanabi.controller.rules.state import BrokerSet, Live, Replica


def replica(number: int) -> Replica:
    return Replica(address=f"h{number}:10911", check_code=f"h{number}:10911;{number}")


def broker_set(
    *numbers: int, master: int | None = 1, epoch: int = 3, in_sync: set[int] | None = None, sync_epoch: int = 7
) -> BrokerSet:
    members = {1} if in_sync is None else in_sync
    return BrokerSet(
        cluster="c",
        name="a",
        next_id=max(numbers) + 1,
        replicas={number: replica(number) for number in numbers},
        master_id=master,
        master_epoch=epoch,
        in_sync=frozenset(members),
        sync_epoch=sync_epoch,
    )


def live(number: int, *, epoch: int = 3, max_offset: int = 0, priority: int = 2**31 - 1) -> Live:
    return Live(f"h{number}:10911", epoch, max_offset, priority)


def alive(*numbers: int) -> dict[int, Live]:
    return {number: live(number) for number in numbers}
