"""`hanabi cluster plan` and `hanabi cluster up`: forms of a cluster, as files and as processes."""
