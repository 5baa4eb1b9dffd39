"""Replication in controller mode: epochs, the handshake, and the replicas that must acknowledge."""
