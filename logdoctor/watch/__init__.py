"""Following a start as it happens: the log of a server, or the command that starts it."""
