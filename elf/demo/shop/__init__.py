"""A web shop of several servers that write real logs. HTTP requests come in, answers and log files go out."""
