"""Transactional messages: visible together with a local transaction, or not at all.

python transaction.py 127.0.0.1:9876

With the broker's default settings the check happens after about a minute: wait for it.
"""

import queue
import sqlite3
import sys
import tempfile
from pathlib import Path

import hanabi
from hanabi import TransactionState

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
database = Path(tempfile.mkdtemp()) / "orders.sqlite"
with sqlite3.connect(database) as setup:
    setup.execute("CREATE TABLE orders (message_id TEXT PRIMARY KEY, amount INTEGER CHECK (amount > 0))")
setup.close()

producer = hanabi.TransactionProducer("shop-tx", namesrv=namesrv)


def write_order(message: hanabi.Message, sent: hanabi.SendResult) -> TransactionState:
    """Run the local transaction. The message is not visible yet."""
    amount = int(message.body)
    connection = sqlite3.connect(database)
    try:
        with connection:
            connection.execute("INSERT INTO orders VALUES (?, ?)", (sent.message_id, amount))
    except sqlite3.IntegrityError:
        return TransactionState.ROLLBACK
    finally:
        connection.close()
    if amount == 30:
        raise RuntimeError("the process might die here, before it can tell the broker")
    return TransactionState.COMMIT


@producer.check
def look_up(message: hanabi.StoredMessage) -> TransactionState:
    """Report the outcome when the broker asks for it."""
    connection = sqlite3.connect(database)
    found = connection.execute("SELECT 1 FROM orders WHERE message_id = ?", (message.message_id,)).fetchone()
    connection.close()
    print(f"the broker asks about the order of {message.body.decode()}: {'written' if found else 'not there'}")
    return TransactionState.COMMIT if found else TransactionState.ROLLBACK


with producer:
    for amount in (10, -20, 30):
        result = producer.send_in_transaction(hanabi.Message("PaidOrders", str(amount).encode()), write_order)
        print(f"order of {amount}: {result.state.name}")

    consumer = hanabi.PushConsumer("shipping", namesrv=namesrv, consume_from="first")
    consumer.subscribe("PaidOrders")
    shipped: queue.Queue[str] = queue.Queue()

    @consumer.listener
    def ship(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            shipped.put(message.body.decode())

    with consumer:
        print("shipped:", sorted(shipped.get(timeout=120) for _ in range(2)))
