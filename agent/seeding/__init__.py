"""Finds the addresses of seeds: those that are written, those of a DNS name or SRV record, and those in a file.

Entries of the configuration go in, addresses and faults come out. Imports the overlay's addresses.
"""
