"""Log output of the command and of servers."""
