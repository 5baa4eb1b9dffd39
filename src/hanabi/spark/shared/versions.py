"""Supported versions of Spark."""

from hanabi.errors import ConfigError

NEEDED = (4, 2)


def check_version(version: str) -> None:
    """Raise ConfigError if pyspark *version* is too old."""
    parts = version.split(".")
    numbers = tuple(int(part) for part in parts[:2] if part.isdecimal())
    if len(numbers) == 2 and numbers < NEEDED:
        raise ConfigError(
            f"hanabi's Spark sources need pyspark {'.'.join(map(str, NEEDED))} or newer, this is {version}:"
            " pip install --upgrade pyspark"
        )
