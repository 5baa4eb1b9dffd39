"""Brokers behind the gRPC API: the one of this process, or those of a cluster."""
