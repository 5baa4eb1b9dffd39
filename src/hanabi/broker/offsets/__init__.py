"""Consumer offsets: how far each group has come, and the rules of committing it."""
