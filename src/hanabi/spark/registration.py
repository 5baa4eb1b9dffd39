"""Making the sources known to a session that did not find them by itself."""

from typing import TYPE_CHECKING

from hanabi.spark.shared.versions import check_version

if TYPE_CHECKING:  # `hanabi pipeline list` imports this package where there is no Spark
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `rocketmq` and `rocketmq-store` formats of *spark*.

    A session finds the formats by itself where the package is installed for the driver's Python; this is for the rest.
    The workers need the package as well.
    """
    import pyspark

    check_version(pyspark.__version__)
    from hanabi.spark.broker_source import BrokerSource
    from hanabi.spark.store_source import StoreSource

    spark.dataSource.register(BrokerSource)
    spark.dataSource.register(StoreSource)
