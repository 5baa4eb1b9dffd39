"""The pipeline `orders`: from a topic to Parquet and another topic, in several runs over the same output."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hanabi
from hanabi.errors import ConfigError
from hanabi.spark.pipelines.orders.pipeline import PIPELINE, OrdersOptions
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY
from tests.serving import Serving, serving
from tests.spark.broker_world import make_topic, rows
from tests.spark.pipelines.running import Steps
from tests.spark.pipelines.tables import only, rows_of


def order(number: int, at: str, **changes: object) -> bytes:
    fields = {"order": f"O-{number}", "customer": "C-1", "product": "tea", "quantity": 2, "price": 1.25, "at": at}
    return json.dumps(fields | changes).encode()


def send(broker: Serving, bodies: list[bytes]) -> None:
    with hanabi.Producer("shop", namesrv=broker.namesrv) as producer:
        for body in bodies:
            producer.send(hanabi.Message("Orders", body))


def test_orders_are_taken_once_added_up_and_sent_and_a_later_run_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    products = tmp_path / "products.csv"
    products.write_text("product,category\ntea,drinks\nbread,food\n")
    with serving(tmp_path / "broker") as broker:
        make_topic(broker, "Orders", queues=2)
        make_topic(broker, "Totals", queues=1)
        options = OrdersOptions(
            namesrv=broker.namesrv,
            output=str(tmp_path / "out"),
            output_topic="Totals",
            products=str(products),
            by="category",
        )
        send(
            broker,
            [
                order(1, "2024-05-01T10:05:00Z"),
                order(2, "2024-05-01T10:20:00Z", product="bread", quantity=3, price=2),
                order(1, "2024-05-01T10:06:00Z"),  # again
                order(3, "2024-05-01T10:50:00Z", product="soap"),
                order(4, "2024-05-01T12:30:00Z"),  # closes 10:00 to 11:00
                b"no JSON \xff",
                order(5, "2024-05-01T10:00:00Z", quantity=0),
                order(6, "2624-05-01T10:00:00Z"),
                order(7, "noon"),
            ],
        )
        outcome = PIPELINE.run(spark, options, Steps())
        assert [only(row, "from", "category", "orders", "amount", "state") for row in rows_of(outcome, "totals")] == [
            ("2024-05-01T12:00:00Z", "drinks", 1, "2.50", "open"),
            ("2024-05-01T10:00:00Z", "(unknown)", 1, "2.50", "sent"),
            ("2024-05-01T10:00:00Z", "drinks", 1, "2.50", "sent"),
            ("2024-05-01T10:00:00Z", "food", 1, "6.00", "sent"),
        ]
        assert outcome.facts == {
            "messages_read": 9,
            "duplicates_left_out": 1,
            "too_late": 0,
            "orders_in_all": 4,
            "no_orders_in_all": 4,
            "totals_sent": 3,
        }
        assert {row["problem"] for row in rows_of(outcome, "no orders")} == {
            "it is no JSON object with an order",
            "its quantity is no number above 0",
            "its time has not come yet",
            "its time cannot be read",
        }
        sent = {row["keys"][0]: row for row in rows(broker, "body keys tags properties", subscribe="Totals")}
        assert sorted(sent) == [f"{name}@2024-05-01T10:00:00" for name in ("(unknown)", "drinks", "food")]
        assert json.loads(sent["food@2024-05-01T10:00:00"]["body"]) == {
            "from": "2024-05-01T10:00:00.000Z",
            "to": "2024-05-01T11:00:00.000Z",
            "category": "food",
            "orders": 1,
            "quantity": 3,
            "amount": 6.00,
        }
        assert all(ROW_ID_PROPERTY in row["properties"] for row in sent.values())

        # A second run: what was read is not read again, what is behind the watermark is too late.
        send(
            broker,
            [order(1, "2024-05-01T12:25:00Z"), order(8, "2024-05-01T10:30:00Z"), order(9, "2024-05-01T14:00:00Z")],
        )
        again = PIPELINE.run(spark, options, Steps())
        assert only(again.facts, "messages_read", "too_late", "orders_in_all", "totals_sent") == (3, 1, 6, 1)
        assert len(rows(broker, "body", subscribe="Totals")) == 4
        kept = spark.read.parquet(str(tmp_path / "out" / "orders")).where("problem is null")
        assert sorted(row.order for row in kept.collect()) == ["O-1", "O-1", "O-2", "O-3", "O-4", "O-9"]
        assert {row.amount for row in kept.collect()} == {Decimal("2.50"), Decimal("6.00")}

        with hanabi.PullConsumer("orders-pipeline", namesrv=broker.namesrv) as group:
            assert sum(group.committed(queue) or 0 for queue in group.queues_of("Orders")) >= 9


class Interrupting(Steps):
    """Somebody who presses control-C when there are totals."""

    def __init__(self, totals: Path) -> None:
        super().__init__()
        self._totals = totals

    def advance(self, done: int, total: int | None = None) -> None:
        if any((self._totals / "_spark_metadata").glob("[0-9]")):
            raise KeyboardInterrupt


def test_a_run_that_follows_takes_what_comes_until_it_is_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "broker") as broker:
        make_topic(broker, "Orders", queues=1)
        send(broker, [order(1, "2024-05-01T10:05:00Z"), order(2, "2024-05-01T12:05:00Z")])
        options = OrdersOptions(namesrv=broker.namesrv, output=str(tmp_path / "out"), follow=True, interval_s=0)
        outcome = PIPELINE.run(spark, options, Interrupting(tmp_path / "out" / "totals"))
        assert outcome.facts["orders_in_all"] == 2
        assert [only(row, "product", "orders") for row in rows_of(outcome, "totals")] == [("tea", 1), ("tea", 1)]
        assert not spark.streams.active


def test_what_cannot_be_done_is_told_before_anything_is_started(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="output-topic=Orders is the topic that orders come from"):
        OrdersOptions(output="out", output_topic="Orders")
    with pytest.raises(ConfigError, match="for-s is for a run with follow"):
        OrdersOptions(output="out", for_s=1.0)
    (tmp_path / "products.csv").write_text("product,price\ntea,1\n")
    options = OrdersOptions(output=str(tmp_path / "out"), products=str(tmp_path / "products.csv"))
    with pytest.raises(ConfigError, match="the table of products has a column 'price', as orders have"):
        PIPELINE.run(spark, options, Steps())
    with pytest.raises(ConfigError, match="by=produkt: orders have no such column: did you mean 'product'"):
        PIPELINE.run(spark, OrdersOptions(output=str(tmp_path / "out"), by="produkt"), Steps())
    assert not (tmp_path / "out" / "checkpoints").exists()
