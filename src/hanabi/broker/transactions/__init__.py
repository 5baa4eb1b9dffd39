"""Transactional messages: half messages, their ends, and check-backs to producers."""
