"""From raw records to Arrow, many at a time: numpy finds where everything lies, Arrow copies it out, Python sees none.

`wire.message.record` and `wire.message.stored` are the specification: what they make of one record, this makes of ten
thousand. It serves the files of a store and the replies of a broker alike, and knows neither Spark nor where the bytes
came from.
"""
