"""The pull consumer and the lite pull consumer."""
