"""Parts that several administrative handlers share."""
