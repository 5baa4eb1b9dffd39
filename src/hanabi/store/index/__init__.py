"""The key index: from a message key to positions in the log."""
