"""What the dashboard knows of a cluster: bounded, shared queries, and decisions about their answers."""
