"""`hanabi store`."""
