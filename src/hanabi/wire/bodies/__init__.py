"""Typed JSON bodies of requests and replies, one file a subject."""
