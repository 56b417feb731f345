"""Error of a source, reported in one line."""


class SourceError(Exception):
    """A source cannot be read, or not to its end. The message is one line with the file and what is wrong (`what`)."""

    def __init__(self, file: str, what: str) -> None:
        self.what = what
        name = file if file and file.isprintable() else ascii(file)
        super().__init__(f"{name}: {' '.join(what.split())}")
