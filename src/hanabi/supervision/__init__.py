"""Supervised processes: one server each, started again when it ends, and ended with its supervisor."""
