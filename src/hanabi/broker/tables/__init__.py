"""Topics and consuming groups, and the files that keep them."""
