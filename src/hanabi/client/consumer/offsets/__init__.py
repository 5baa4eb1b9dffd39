"""Offsets of a consumer: start points, and stores for committed offsets."""
