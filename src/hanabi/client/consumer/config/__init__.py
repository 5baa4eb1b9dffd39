"""The settings of consumers."""
