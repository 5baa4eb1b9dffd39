"""The check of a store: log, queues and index against each other."""
