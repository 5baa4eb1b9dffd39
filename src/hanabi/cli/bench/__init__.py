"""`hanabi bench`."""
