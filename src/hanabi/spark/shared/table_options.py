"""Tables of Spark's catalogue: their options never reach a source in Python, so making one is refused."""

from collections.abc import Mapping

from hanabi.errors import ConfigError


def check_is_no_table(given: Mapping[str, str], source: str) -> None:
    """Raise for `CREATE TABLE ... USING`, which hands properties of the table to the source, such as `provider`.

    Spark 4.3 keeps the options of the table and hands none of them to a Python source that reads or writes it.
    """
    if any(name.lower() == "provider" for name in given):
        raise ConfigError(
            f"a table cannot be made with USING {source}: Spark hands the options of a table to no Python source that"
            " reads it."
            f" CREATE TEMPORARY VIEW name USING {source} OPTIONS (...) can be read, and so can load()"
        )
