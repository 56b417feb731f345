"""Jobs of this benchmark with keyed elements, as creators submit them."""
