"""The broker: its parts, its settings, its registration with the name servers."""
