"""Message filters: tags, SQL92 expressions, bloom filters."""
