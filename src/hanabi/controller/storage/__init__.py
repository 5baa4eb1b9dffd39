"""Storage of the controller's state: a file of one node, or etcd."""
