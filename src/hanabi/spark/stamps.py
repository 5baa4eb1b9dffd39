"""What the sink writes on every message, so that whoever reads can tell a repeat from a new message.

SPARK_ROW = query / batch / partition / row
"""

from typing import Final

STAMP: Final = "SPARK_ROW"
