"""The pipeline `orders`, a demo."""

from hanabi.spark.pipelines.orders.pipeline import PIPELINE, OrdersOptions, run

__all__ = ["PIPELINE", "OrdersOptions", "run"]
