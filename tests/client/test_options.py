"""Options by name: type checkers know them, and what is wrong at run time is a ConfigError that names it."""

from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec
import pytest

import hanabi
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.config.pull_config import LitePullConfig, PullConfig
from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.options import ClientOptions, LitePullOptions, ProducerOptions, PullOptions, PushOptions
from hanabi.client.producer.config import ProducerConfig
from hanabi.errors import ConfigError

NAMESRV = "127.0.0.1:9876"


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (ProducerOptions, ProducerConfig),
        (PushOptions, PushConfig),
        (PullOptions, PullConfig),
        (LitePullOptions, LitePullConfig),
    ],
)
def test_the_options_of_a_client_are_the_fields_of_its_settings(options: type, settings: type[msgspec.Struct]) -> None:
    shared = {name: hint | None for name, hint in get_type_hints(ClientConfig).items()}
    assert get_type_hints(ClientOptions) == shared
    assert get_type_hints(options) == {**shared, **get_type_hints(settings)}


def test_a_misspelt_option_is_found_by_type_checkers_and_at_run_time() -> None:
    """mypy runs over this file, and complains of each comment below that it does not need."""
    wrong: list[Callable[[], object]] = [
        lambda: hanabi.Producer("g", namesrv=NAMESRV, retires=3),  # type: ignore[call-arg]
        lambda: hanabi.TransactionProducer("g", namesrv=NAMESRV, retires=3),  # type: ignore[call-arg]
        lambda: hanabi.PushConsumer("g", namesrv=NAMESRV, concurency=3),  # type: ignore[call-arg]
        lambda: hanabi.PullConsumer("g", namesrv=NAMESRV, hold=3),  # type: ignore[call-arg]
        lambda: hanabi.LitePullConsumer("g", namesrv=NAMESRV, poll_bach=3),  # type: ignore[call-arg]
        lambda: hanabi.aio.Producer("g", namesrv=NAMESRV, retires=3),  # type: ignore[call-arg]
        lambda: hanabi.aio.PushConsumer("g", namesrv=NAMESRV, concurency=3),  # type: ignore[call-arg]
    ]
    for make in wrong:
        with pytest.raises(ConfigError, match="unknown option"):
            make()


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        (hanabi.Producer, {"retries": "3"}, r"retries must be int, not '3' \(str\)"),
        (hanabi.Producer, {"send_timeout_s": "3"}, r"send_timeout_s must be float, not '3'"),
        (hanabi.Producer, {"retries": True}, "retries must be int, not True"),
        (hanabi.Producer, {"compression": 3}, "compression must be str"),
        (hanabi.Producer, {"namesrv": 9876}, "namesrv must be str or Sequence"),
        (hanabi.Producer, {"tls": True}, "tls must be TlsConfig or None"),
        (hanabi.PushConsumer, {"concurrency": "20"}, "concurrency must be int"),
        (hanabi.PushConsumer, {"allocate": "averagely"}, "allocate must be"),
        (hanabi.PullConsumer, {"hold_s": "20"}, "hold_s must be float"),
        (hanabi.LitePullConsumer, {"poll_timeout_s": None}, "poll_timeout_s must be float"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_config_error_that_names_it(
    make: Callable[..., Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make("g", **{"namesrv": NAMESRV, **options})


def test_a_whole_number_may_stand_for_seconds() -> None:
    assert hanabi.Producer("g", namesrv=[NAMESRV], send_timeout_s=5).settings.send_timeout_s == 5
