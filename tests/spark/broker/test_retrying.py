"""A broker that is away is asked again, one that refuses is not."""

from collections.abc import Awaitable, Callable

import pytest

from hanabi.errors import ConnectionLostError, NoPermission
from hanabi.spark.broker.retrying import patiently


def failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    left = list(errors)

    async def ask() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return ask


async def test_a_lost_connection_is_tried_again() -> None:
    lost = ConnectionLostError("gone")
    assert (await patiently(failing(lost, lost), 5.0)) == "answer"


async def test_without_time_the_first_error_counts() -> None:
    with pytest.raises(ConnectionLostError, match="gone"):
        await patiently(failing(ConnectionLostError("gone")), 0.0)


async def test_a_refusal_is_final() -> None:
    with pytest.raises(NoPermission):
        await patiently(failing(NoPermission("no")), 5.0)
