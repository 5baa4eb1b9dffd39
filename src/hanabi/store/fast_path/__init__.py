"""The store's half of the compiled fast path: batched appends and reads of ordinary messages.

    _appends.pyx    writes the records of a run of messages into the mapped log
    store_side.py   reads the store when a run begins, changes it when the run ends
    _reads.pyx      finds the records of a pull, checks each of them, copies them once
    read_ahead.py   reads queue entries for several pulls at a time
    loading.py      loads the compiled modules, if there are any

`MessageStore.put` and `QueueReader.get` are the specification. The fast path does exactly the same or declines before
it changes anything; then the caller falls back to them. Without a compiler, or with HANABI_PURE_PYTHON set, there is no
fast path.
"""
