"""Ready pipelines on Spark: the contract that each fulfils, their options and their session."""
