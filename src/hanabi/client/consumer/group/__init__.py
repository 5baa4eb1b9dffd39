"""Membership of a consuming group: allocation of queues and rebalance."""
