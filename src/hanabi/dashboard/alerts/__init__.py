"""Alerts: rules about samples of the cluster, their state over time, and the webhook that learns of changes."""
