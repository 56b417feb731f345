"""The error of the demo, said in one line."""


class DemoError(Exception):
    """The shop, its load or its agents cannot start or go on; the message is one line that says which part and why."""
