"""RocketMQ's protocol: bytes in, values out. Knows no socket, no clock and no log."""
