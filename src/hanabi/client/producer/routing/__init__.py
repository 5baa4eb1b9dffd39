"""Choice of a queue for each message."""
