"""Jobs of this benchmark, as creators submit them."""
