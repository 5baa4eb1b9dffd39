"""The decisions of replication. Pure: no socket, no file, no clock."""
