"""`hanabi serve`."""
