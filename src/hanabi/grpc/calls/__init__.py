"""Calls of the gRPC API, one file a subject: messages of `apache.rocketmq.v2` to requests of a broker, and back."""
