"""Messages on their way to a key, hop by hop, and requests with their responses."""
