"""Reads from brokers: plan on the driver, pulls in tasks."""
