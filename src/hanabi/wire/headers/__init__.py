"""Typed headers of requests and replies, one file a subject."""
