"""Producers: batching, retries, back-pressure, transactions, request and reply."""
