"""Chaos for a master and its slave: faults of both and of the link between them, and then the master is lost.

A run is a series of rounds. In each, messages are sent while faults come; at its end the master is killed under load
and its store is thrown away. What was acknowledged in the round must be in the slave's log: with SYNC_MASTER all of it,
with ASYNC_MASTER what is missing is counted. The slave is promoted by configuration, an empty one joins, and the next
round begins.

    plan.py      faults of a round, by a seed; pure
    pair.py      the servers: name server, master, slave, the link as a proxy
    sending.py   the load, and what was acknowledged
    run.py       rounds, and their figures
"""
