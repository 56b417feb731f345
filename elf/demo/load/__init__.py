"""The load of the shop: simulated shoppers, and their requests over HTTP. Ports come in, a report goes out."""
