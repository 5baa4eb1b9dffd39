"""The commit log and the walk over its records."""
