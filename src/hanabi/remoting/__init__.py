"""The transport: connections on which either side may ask."""
