"""Effectively-once consumption of messages that may be delivered more than once."""
