"""Delivery of pulled messages to a listener: concurrent or in order, retried on failure."""
