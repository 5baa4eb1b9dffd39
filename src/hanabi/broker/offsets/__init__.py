"""Consumer offsets: the progress of each group, and the rules of committing it."""
