"""What can go wrong in a sweep without a fault of the program."""


class SweepError(Exception):
    """A sweep cannot begin or go on; the message says why and what to do."""
