"""Consuming each message once in effect, although it may be delivered more than once."""
