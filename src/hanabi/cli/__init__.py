"""The `hanabi` command."""
