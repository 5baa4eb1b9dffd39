"""Delayed delivery: delay levels and timer messages."""
