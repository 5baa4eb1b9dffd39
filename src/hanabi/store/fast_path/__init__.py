"""The store's half of the compiled fast path: batched appends and reads of ordinary messages.

    _appends.pyx    writes the records of a run of messages into the mapped log
    _copies.pyx     dispatches a run of records that a slave has copied into its log
    store_side.py   the parts of the store that a run reads when it begins and changes when it ends
    _reads.pyx      finds the records of a pull, checks each of them, copies them once
    loading.py      loads the compiled modules, if there are any

`MessageStore.put` and `QueueReader.get` are the specification. The fast path does exactly the same or declines before
it changes anything; then the caller falls back to them. Without a compiler, or with HANABI_PURE_PYTHON set, there is no
fast path.
"""
