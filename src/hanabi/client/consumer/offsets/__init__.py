"""Offsets of a consumer: where it starts, and where it keeps how far it has come."""
