"""Replication of the commit log from a master to its slaves, on the wire of RocketMQ's default HA service.

    wire.py          reports of a slave and pieces of a master, parsed however they are cut            pure
    verdicts.py      what a first report may claim, what an acknowledgement and a piece may say        pure
    progress.py      how far each slave is, which slaves are in sync, what enough of them hold         pure
    put_rules.py     how many acknowledgements a put needs, and with which status it ends              pure
    waiters.py       puts that wait for an offset, released and expired together                       pure
    acks.py          progress, rules and waiters joined: the object that a broker asks about a put     pure
    pacing.py        the flow limit and the transfer rate                                              pure
    peers.py         which addresses may connect                                                       pure
    complaints.py    how often a log line is repeated                                                  pure
    config.py        the settings, under Apache's keys
    log_access.py    what master and slave need of a log (Protocols), and the message store as such a log
    master.py        the replication port; sender.py is one connection to a slave
    slave.py         the client that follows a master; follower.py is one connection to it

Nothing here knows the broker: topics, groups and offsets are copied by requests of the main port, not on this wire.
"""
