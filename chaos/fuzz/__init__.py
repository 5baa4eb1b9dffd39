"""Fuzzing of live servers: broken and strange requests from many connections, while a normal client must be served."""
