"""The agent's metrics for Prometheus, and whether it is well, over HTTP."""
