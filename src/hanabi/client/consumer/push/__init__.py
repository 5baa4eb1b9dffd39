"""Push consumer."""
