"""The message store: commit log, consume queues and key index, in Apache's files."""
