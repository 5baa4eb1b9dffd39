"""Measuring: how much a cluster takes and gives, how long that takes, and what a store can do on a disk.

`produce`, `consume` and `end_to_end` drive any RocketMQ cluster through the public client library; `store` drives our
store alone. Knows nothing of terminals: `hanabi.cli.bench.command` shows what is found here.
"""
