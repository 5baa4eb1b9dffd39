"""POP consumption: the broker hands out messages, hides them for a while, and takes acknowledgements one by one."""
