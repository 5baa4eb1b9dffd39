"""Parts that several calls share: the context of a call, its check, names, sessions, renewals."""
