"""The compressed buffer tree: buffers that are split, emptied, merged and spilled."""
