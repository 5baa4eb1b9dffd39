"""Counters and rates of what the broker has done."""
