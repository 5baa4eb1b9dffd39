"""The YAML file of `hanabi pipeline run --config`: options of the pipeline, and beside them where Spark runs."""

from pathlib import Path
from typing import Any

import msgspec

from hanabi.errors import ConfigError


class ConfigFile(msgspec.Struct, frozen=True):
    """*options* have the names that the file uses; the pipeline checks them."""

    options: dict[str, Any] = {}
    master: str | None = None
    conf: dict[str, str] = {}


def read_config(path: Path | None) -> ConfigFile:
    """Raises ConfigError if there is no such file, or it is no YAML, or no mapping."""
    if path is None:
        return ConfigFile()
    try:
        given = msgspec.yaml.decode(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"--config {path} cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"--config {path} is not YAML: {' '.join(str(error).split())}") from error
    if given is None:
        return ConfigFile()
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ConfigError(f"--config {path}: must be options and their values, such as `topics: [Orders]`")
    master, conf = given.pop("master", None), given.pop("conf", None) or {}
    if not (master is None or isinstance(master, str)):
        raise ConfigError(f"--config {path}: master={master!r} must be text, such as local[4]")
    if not isinstance(conf, dict):
        raise ConfigError(f"--config {path}: conf must be settings of Spark, such as `spark.driver.memory: 4g`")
    return ConfigFile(given, master, {str(key): _setting(value) for key, value in conf.items()})


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
