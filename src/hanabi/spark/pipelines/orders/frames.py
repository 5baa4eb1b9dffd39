"""Transformations of `orders`: check, deduplicate, enrich, sum. Frames in, frames out; no query is started here.

An order is a JSON object:

    {"order": "O-17", "customer": "C-3", "product": "tea", "quantity": 2, "price": 4.50, "at": "2026-11-15T10:00:00Z"}

`at` is optional; its default is the message's born time.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from hanabi.errors import ConfigError
from hanabi.spark.shared.suggestions import did_you_mean

COLUMNS: Final = "messageId string, body binary, bornTimestamp timestamp, storeTimestamp timestamp"
DAMAGE: Final = "damage string"  # the reason of an unreadable body; only if such messages are read
JOINED_BY: Final = "product"

_ORDER: Final = "order string, customer string, product string, quantity long, price decimal(12,2), at string"
_CLOCKS_DIFFER: Final = "1 hour"  # an order from the future would close all other windows


def checked_orders(messages: DataFrame) -> DataFrame:
    """Return a row for each message.

    An invalid order has its `problem` and its text; it has no time and is never late.
    """
    text = f.make_valid_utf8(f.col("body").cast("string"))
    damage = f.col("damage") if "damage" in messages.columns else f.lit(None).cast("string")
    read = messages.select(
        "messageId",
        "storeTimestamp",
        "bornTimestamp",
        damage.alias("damage"),
        text.alias("text"),
        f.from_json(text, _ORDER).alias("told"),
    ).select("*", "told.*", f.try_to_timestamp("told.at").alias("told_at"))
    at = f.coalesce("told_at", "bornTimestamp")
    problem = (
        f.when(f.col("damage").isNotNull(), f.col("damage"))
        .when(f.col("order").isNull(), f.lit("it is no JSON object with an order"))
        .when(f.col("product").isNull(), f.lit("it has no product"))
        .when(f.col("quantity").isNull() | (f.col("quantity") < 1), f.lit("its quantity is no number above 0"))
        .when(f.col("price").isNull() | (f.col("price") < 0), f.lit("its price is no number"))
        .when(f.col("at").isNotNull() & f.col("told_at").isNull(), f.lit("its time cannot be read"))
        .when(at > f.col("storeTimestamp") + f.expr(f"interval {_CLOCKS_DIFFER}"), f.lit("its time has not come yet"))
    )
    orders = read.withColumn("problem", problem)
    is_good = f.col("problem").isNull()
    return orders.select(
        f.when(is_good, f.col("order")).alias("order"),
        "customer",
        "product",
        "quantity",
        "price",
        f.when(is_good, (f.col("quantity") * f.col("price")).cast("decimal(18,2)")).alias("amount"),
        f.when(is_good, at).alias("ordered_at"),
        f.col("messageId").alias("message_id"),
        "problem",
        f.when(~is_good, f.col("text")).alias("text"),
    )


def once_each(orders: DataFrame, watermark: str) -> DataFrame:
    """Drop repeats of an order number within *watermark*; keep all invalid orders."""
    keyed = orders.withColumn("key", f.coalesce("order", f.concat(f.lit("message "), f.col("message_id"))))
    return keyed.withWatermark("ordered_at", watermark).dropDuplicatesWithinWatermark(["key"]).drop("key")


def enriched(orders: DataFrame, products: DataFrame | None) -> DataFrame:
    """Add the columns of *products*; null if a product is unknown."""
    if products is None:
        return orders
    if JOINED_BY not in products.columns:
        raise ConfigError(
            f"the table of products has no column {JOINED_BY!r}{did_you_mean(JOINED_BY, products.columns)}"
        )
    if both := sorted(set(products.columns) & set(orders.columns) - {JOINED_BY}):
        raise ConfigError(f"the table of products has a column {both[0]!r}, as orders have: rename it")
    return orders.join(f.broadcast(products.dropDuplicates([JOINED_BY])), JOINED_BY, "left")


def totals(orders: DataFrame, window: str, by: str) -> DataFrame:
    """Return the totals of each *window* of time, by one column."""
    if by not in orders.columns:
        raise ConfigError(f"by={by}: orders have no such column{did_you_mean(by, orders.columns)}")
    group: Column = f.coalesce(f.col(by).cast("string"), f.lit("(unknown)"))
    added = orders.groupBy(f.window("ordered_at", window).alias("time"), group.alias(by)).agg(
        f.count("*").alias("orders"), f.sum("quantity").alias("quantity"), f.sum("amount").alias("amount")
    )
    return added.select(
        f.col("time.start").alias("from"), f.col("time.end").alias("to"), by, "orders", "quantity", "amount"
    )


def as_messages(added: DataFrame, by: str) -> DataFrame:
    """Return totals as JSON messages with group and time as key; those of one group go to one queue."""
    return added.select(
        f.to_json(f.struct("*")).alias("body"),
        f.lit("total").alias("tags"),
        f.array(f.concat_ws("@", by, f.date_format("from", "yyyy-MM-dd'T'HH:mm:ss"))).alias("keys"),
        f.col(by).alias("orderingKey"),
    )
