"""Carries nodes' messages over TLS links: the only part of the overlay that touches sockets.

Takes messages to send and identities; hands received messages and lost peers to a `Receiver`. Inside, the layers are
transport > link > identity, over `overlay.wire`.
"""
