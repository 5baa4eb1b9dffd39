"""The controller: elects the master of each broker name, and keeps its set of replicas in sync."""
