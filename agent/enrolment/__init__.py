"""Admits agents by tokens and renews their certificates, over TLS, while the authority's service runs.

A token or a certificate that is about to end goes in, a certificate comes out; private keys stay where they are made.
Imports the overlay's identities and the log.
"""
