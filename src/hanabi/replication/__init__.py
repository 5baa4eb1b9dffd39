"""Replication of the commit log from a master to its slaves, on the wire of RocketMQ's default HA service.

    wire.py          reports of a slave and pieces of a master, parsed from any fragmentation          pure
    acks.py          the object that a broker asks about a put: progress, rules and waiters joined      pure
    rules/           the decisions:                                                                    pure
      verdicts.py    what a first report may claim, what an acknowledgement and a piece may say
      progress.py    how far each slave is, which slaves are in sync, what enough of them hold
      put_rules.py   how many acknowledgements a put needs, and with which status it ends
      waiters.py     puts that wait for an offset, released and expired together
      pacing.py      the flow limit and the transfer rate
      peers.py       which addresses may connect
      log_limits.py  how often a log line is repeated
      copied_tables.py  what a slave's tables become after a copy of its master's
    config.py        the settings, under Apache's keys
    log_access.py    what master and slave need of a log (Protocols), and the message store as such a log
    master.py        the replication port; sender.py is one connection to a slave
    tls_listener.py  accepting slaves with TLS
    slave.py         the client that follows a master; follower.py is one connection to it
    ha_status.py     the answer to GET_BROKER_HA_STATUS (mqadmin haStatus)                             pure
    metadata.py      topics, groups and offsets, which a slave asks its master for on the port for clients

Nothing here knows the broker: it hands in its log, its tables and the rule for its puts.
"""
