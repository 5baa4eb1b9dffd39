"""Templates, texts in two languages, and figures as text."""
