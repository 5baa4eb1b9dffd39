"""Slaves that act as masters: members of a broker name, escape of due messages, the return of a master."""
