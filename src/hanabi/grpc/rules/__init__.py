"""Decisions of the gRPC API: checks, handles, queues, settings. Pure."""
