"""Parts that several commands share: finding a cluster, output, completion."""
