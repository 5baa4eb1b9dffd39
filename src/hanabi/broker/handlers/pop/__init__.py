"""Handlers of POP, one file a subject. Rules and state are in `broker/pop`."""
