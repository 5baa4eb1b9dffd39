"""Replication in the broker: its role, the master's part and the slave's."""
