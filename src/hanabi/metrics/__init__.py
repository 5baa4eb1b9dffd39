"""The metrics port: Prometheus' text, health and readiness."""
