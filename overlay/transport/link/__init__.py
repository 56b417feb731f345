"""One link to a peer: TCP socket, TLS, handshake, frames, compression and flow control."""
