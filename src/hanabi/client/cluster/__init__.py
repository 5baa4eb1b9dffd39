"""The cluster as a client sees it: routes, name servers, heartbeats, typed requests."""
