"""Registration of the formats in a session that did not discover them."""

from typing import TYPE_CHECKING

from hanabi.spark.shared.versions import check_version

if TYPE_CHECKING:  # `hanabi pipeline list` imports this package where there is no Spark
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register the formats `rocketmq` and `rocketmq-store` with *spark*.

    A session discovers the formats if the package is installed for the driver's Python; call this in any other session.
    The workers need the package as well.
    """
    import pyspark

    check_version(pyspark.__version__)
    from hanabi.spark.broker_source import BrokerSource
    from hanabi.spark.store_source import StoreSource

    spark.dataSource.register(BrokerSource)
    spark.dataSource.register(StoreSource)
