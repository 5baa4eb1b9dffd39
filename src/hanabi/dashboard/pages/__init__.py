"""Pages of the dashboard, one file a subject: a request in, a response out."""
