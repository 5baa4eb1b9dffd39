"""Request handlers, one file a subject: the specification of what a broker answers."""
