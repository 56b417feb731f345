"""Failure detection: pings, indirect probes, suspicion and leases."""
