"""Reads of a store's files, without a broker."""
