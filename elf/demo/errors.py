"""What can go wrong with the demo shop, said in one line."""


class DemoError(Exception):
    """The shop or its load cannot start or go on; the message is one line that says which part and why."""
