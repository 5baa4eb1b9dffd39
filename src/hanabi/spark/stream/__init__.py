"""Streaming reads, from brokers and from a store's files."""
