"""Message traces and OpenTelemetry spans."""
