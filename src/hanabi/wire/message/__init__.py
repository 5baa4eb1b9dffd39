"""Messages as bytes: records, batches, properties, ids, flags and hashes."""
