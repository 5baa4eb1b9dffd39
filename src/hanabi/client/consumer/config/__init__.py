"""Settings of consumers."""
