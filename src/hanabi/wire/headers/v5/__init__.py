"""Headers that only 5.x has."""
