"""The fast path for ordinary sends and pulls: from the bytes of one read of a socket to the bytes of the replies.

    path.py        one call for each read: sends first, then one pull
    contract.py    what it returns, and what it needs of connections and of access control
    _sends.pyx     sends and batches: header, properties, record and reply; all sends of one read are one run of appends
    pulls.py       pulls without a filter, decided by the same object as in the handler
    _admission.pyx with access control: the signature of each frame, and verdicts that are kept
    _frames.pyx    the header of a pull, the head of a reply
    _header.pxd    request headers, JSON and binary, as nearly all clients write them
    replies.py     replies as `wire.command` encodes them, cut where values go
    durable.py     replies that wait for the disk (SYNC_FLUSH) and for slaves (SYNC_MASTER)
    counts.py      how many frames were taken, and why some were declined
    building.py    makes it of the handlers' parts, if it is compiled

The handlers are the specification. The fast path answers a frame as they would, byte for byte, and stores the same, or
it declines the frame before anything of it is done; the handlers then have it and the frames behind it. So declining is
always right and costs only time. `tests/broker/fast_path/test_sends.py` and `test_pulls.py` compare both for any frame.

The store's half is `hanabi.store.fast_path`. Without a compiler, or with HANABI_PURE_PYTHON set, the handlers serve
everything.
"""
