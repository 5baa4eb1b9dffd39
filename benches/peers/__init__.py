"""The programs that are measured, each in a process of its own: our client, and the others that can be had."""
