"""Decisions of the controller: state, request and living brokers in; new state and answer out. Pure."""
