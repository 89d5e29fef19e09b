"""The end of a run that cannot do as asked."""


class Stop(Exception):
    """The tool cannot do as asked: a line for standard error, exit 2."""
