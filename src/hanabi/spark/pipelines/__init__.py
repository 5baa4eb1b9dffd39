"""Ready-made Spark pipelines: their common contract, their options and their session."""
