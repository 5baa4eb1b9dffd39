"""Vectorised decoding of raw records into Arrow: numpy locates the fields, Arrow copies them, Python sees no row.

`wire.message.record` and `wire.message.stored` are the specification: this package does for ten thousand records what
they do for one. It serves the files of a store and the replies of a broker alike, and depends on neither Spark nor the
origin of the bytes.
"""
