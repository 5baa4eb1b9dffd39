"""Handlers of administrative requests, one file a subject."""
