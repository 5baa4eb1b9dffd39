"""The sink: rows sent as messages."""
