"""The setting messageDelayLevel."""

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.errors import ConfigError
from hanabi.wire.delay_levels import parse_delay_levels


def test_the_default_has_18_levels_from_a_second_to_two_hours() -> None:
    levels = parse_delay_levels(BrokerConfig(broker_name="a").message_delay_levels)
    assert levels.highest == 18
    assert [levels.delay_ms(level) for level in (1, 2, 5, 18)] == [1_000, 5_000, 60_000, 7_200_000]
    assert levels.delay_ms(0) is levels.delay_ms(19) is None


def test_every_unit_is_known() -> None:
    assert parse_delay_levels("1s 2m 3h 4d").delays_ms == (1_000, 120_000, 10_800_000, 345_600_000)


@pytest.mark.parametrize(
    "text", ["", " ", "1", "s", "1x", "1.5s", "-1s", "1s,5s", "1s five", "1S", "٣s", "1s " * 1_001]
)
def test_a_bad_level_is_an_error_that_names_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        parse_delay_levels(text)


def test_the_time_of_delivery_is_the_delay_after_the_store_time_and_no_level_is_above_the_highest() -> None:
    levels = parse_delay_levels("1s 1h")
    assert levels.deliver_time_ms(1, 5_000) == 6_000
    assert levels.deliver_time_ms(2, 5_000) == levels.deliver_time_ms(9, 5_000) == 3_605_000
