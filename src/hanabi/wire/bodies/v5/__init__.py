"""Bodies that only 5.x has."""
