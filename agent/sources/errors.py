"""What can be wrong with a source, told in one line."""


class SourceError(Exception):
    """A source cannot be read (further): one line that names the file and says what is wrong (`what` alone)."""

    def __init__(self, file: str, what: str) -> None:
        self.what = what
        name = file if file and file.isprintable() else ascii(file)
        super().__init__(f"{name}: {' '.join(what.split())}")
