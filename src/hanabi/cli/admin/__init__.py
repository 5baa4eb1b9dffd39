"""Commands that administer a cluster."""
