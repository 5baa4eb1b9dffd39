"""Refusal of tables in Spark's catalogue: their options never reach a Python source."""

from collections.abc import Mapping

from hanabi.errors import ConfigError


def check_is_no_table(given: Mapping[str, str], source: str) -> None:
    """Raise for `CREATE TABLE ... USING`, which passes table properties such as `provider` to the source.

    Spark 4.3 keeps the table's options and passes none of them to the Python source that reads or writes it.
    """
    if any(name.lower() == "provider" for name in given):
        raise ConfigError(
            f"a table cannot be made with USING {source}: Spark hands the options of a table to no Python source that"
            " reads it."
            f" CREATE TEMPORARY VIEW name USING {source} OPTIONS (...) can be read, and so can load()"
        )
