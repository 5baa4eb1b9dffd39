"""Connections opened and accepted: the server, the connector, TLS, and what the machine can bear."""
