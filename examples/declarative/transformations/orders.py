"""The tables that Spark maintains. NAMESRV_ADDR names the name server; `namesrv="host:port"` overrides it."""

from hanabi.spark.pipelines.declarative import define_messages, define_traffic

define_messages(subscribe="Orders", maxOffsetsPerTrigger="300000")
define_traffic()
