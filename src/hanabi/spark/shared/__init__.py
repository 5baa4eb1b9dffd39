"""Parts that sources and sink share: columns, options, offsets, ranges."""
