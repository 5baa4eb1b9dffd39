"""Faults on purpose: a cluster under traffic is killed, stopped, cut off, starved and judged. See docs/faults.md."""
