"""Reads: by queue and offset, by key, by id and by time."""
