"""Consume queues: where the messages of each topic and queue lie in the log."""
