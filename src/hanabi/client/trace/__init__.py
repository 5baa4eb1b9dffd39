"""Message traces: who sent and who consumed a message, when, and how that ended; in Apache's format and topic."""
