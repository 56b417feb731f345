"""Real agents of the demo, as processes. Log files of streams come in, control sockets and log lines go out."""
