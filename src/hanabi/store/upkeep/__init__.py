"""The life of a store: lock, recovery, flush, checkpoint, retention."""
