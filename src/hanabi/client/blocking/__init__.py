"""Producers and consumers for programs without an event loop."""
