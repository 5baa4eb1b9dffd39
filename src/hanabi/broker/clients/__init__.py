"""Connected clients: producers, consuming groups, their locks, and calls to them."""
