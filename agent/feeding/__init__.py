"""Live streams: files followed, parsed in threads, and handed to the runtime."""
