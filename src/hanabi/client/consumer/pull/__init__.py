"""Pull consumer and lite pull consumer."""
