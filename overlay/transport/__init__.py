"""Links between agents: TLS, frames, certificates; the only part of the overlay that touches sockets."""
