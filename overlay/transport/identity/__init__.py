"""Certificates, keys, revocation and trust: the identities of agents and creators. Imports only `overlay.wire`."""
