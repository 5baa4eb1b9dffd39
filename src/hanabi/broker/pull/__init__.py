"""Parts of a pull: access, filter, outcome, and pulls that are held."""
