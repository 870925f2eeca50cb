"""What can go wrong in a run without a fault of the program."""


class TrainerError(Exception):
    """A run cannot start or go on; the message says why and what to do."""
