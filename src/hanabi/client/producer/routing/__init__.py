"""The choice of a queue for each message."""
