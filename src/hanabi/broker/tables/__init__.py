"""Topics and consumer groups, and the files that store them."""
