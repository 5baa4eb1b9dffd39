"""Which tables Spark keeps. The name server is the one that NAMESRV_ADDR says; `namesrv="host:port"` says another."""

from hanabi.spark.pipelines.declarative import define_messages, define_traffic

define_messages(subscribe="Orders", maxOffsetsPerTrigger="300000")
define_traffic()
