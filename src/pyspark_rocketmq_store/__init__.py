"""Spark imports every top-level package whose name begins with `pyspark_` and takes its `DefaultSource`.

One that raises on import would hide the Python sources of all packages, so this one never does. The program that
uses the format gets the error.
"""

try:
    from hanabi.spark.store_source import StoreSource as DefaultSource
except Exception as error:  # noqa: BLE001 (see above)
    _reason = f"{type(error).__name__}: {error}"
    try:
        from pyspark.sql.datasource import DataSource
    except Exception:  # noqa: BLE001, S110 (a Spark without Python sources does not look for any)
        pass
    else:

        class DefaultSource(DataSource):  # type: ignore[no-redef]
            """Says why the real one cannot be used."""

            def __init__(self, options: dict[str, str]) -> None:
                raise ImportError(
                    f"rocketmq-store needs pip install '.[spark]' in a clone of Hanabi, with pyspark 4.2 or newer"
                    f" ({_reason})"
                )

            @classmethod
            def name(cls) -> str:
                return "rocketmq-store"
