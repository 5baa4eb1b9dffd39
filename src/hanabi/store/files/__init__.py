"""Files and their disk: memory-mapped segments, blocks, descriptors."""
