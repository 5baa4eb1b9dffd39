"""Test tools: an embedded cluster with a clock that tests move, a faulty proxy, and waiting (docs/testing.md)."""
