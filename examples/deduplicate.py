"""Deduplication: a message may be sent or delivered twice; its effect happens once.

python deduplicate.py 127.0.0.1:9876
"""

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with hanabi.Producer("tills", namesrv=namesrv) as producer:
    for payment in ("P-7", "P-8", "P-7"):  # the reply was lost, so the till sent it again
        producer.send(hanabi.Message("Charges", b"10 euro", keys=[payment]))

consumer = hanabi.PushConsumer("bank", namesrv=namesrv, consume_from="first")
consumer.subscribe("Charges")
seen = hanabi.SqliteKeys(Path(tempfile.mkdtemp()) / "seen.sqlite")  # or RedisKeys, for several processes; or MemoryKeys
arrived: Counter[str] = Counter()
charged: Counter[str] = Counter()
all_arrived = threading.Event()


@hanabi.deduplicate(lambda message: message.keys[0], seen)
def charge(messages: list[hanabi.StoredMessage]) -> None:
    """Handle each payment once; if it raises, the payment is delivered again."""
    charged.update(message.keys[0] for message in messages)


@consumer.listener
def count_and_charge(messages: list[hanabi.StoredMessage]) -> None:
    charge(messages)
    arrived.update(message.keys[0] for message in messages)
    if arrived.total() == 3:
        all_arrived.set()


with seen, consumer:
    assert all_arrived.wait(60)
for payment in ("P-7", "P-8"):
    print(f"charged {charged[payment]} of {arrived[payment]} arrivals of payment {payment}")
