"""The blocking classes in a Jupyter kernel, which runs every cell inside an event loop."""

from pathlib import Path

import pytest

from tests.documents.blocks import Block
from tests.documents.running import reading
from tests.serving import serving

pytestmark = pytest.mark.long

CELLS = (
    """
import asyncio, queue
import hanabi

asyncio.get_running_loop()
producer = hanabi.Producer("notebook", namesrv="127.0.0.1:9876")
producer.start()
assert producer.send(hanabi.Message("Cells", b"one")).status.name == "SEND_OK"
""",
    """
got = queue.Queue()
consumer = hanabi.PushConsumer("notebook", namesrv="127.0.0.1:9876", consume_from="first")
consumer.subscribe("Cells")

@consumer.listener
def take(messages):
    for message in messages:
        got.put(message.body)

consumer.start()
assert got.get(timeout=60) == b"one"
""",
    """
producer.send(hanabi.Message("Cells", b"two"))
assert got.get(timeout=60) == b"two"
consumer.shutdown()
producer.shutdown()
""",
)


def test_the_blocking_classes_work_in_the_cells_of_a_notebook(tmp_path: Path) -> None:
    with serving(tmp_path) as cluster, reading(cluster, tmp_path, in_notebook=True) as reader:
        for number, cell in enumerate(CELLS):
            reader.run(Block("cell", number, "python", cell))
