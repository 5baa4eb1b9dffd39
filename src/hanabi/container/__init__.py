"""The container: several brokers on one host, one process each."""
