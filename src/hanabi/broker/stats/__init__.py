"""Counters and rates of the broker's work."""
