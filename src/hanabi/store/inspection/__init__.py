"""Read-only views of a store's files, also while a broker runs on them."""
