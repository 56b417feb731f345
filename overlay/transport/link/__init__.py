"""One link to a peer: TLS, handshake, frames, compression and flow."""
