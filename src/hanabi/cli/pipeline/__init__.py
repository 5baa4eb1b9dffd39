"""`hanabi pipeline`."""
