"""What can go wrong in a run without a fault of the program."""


class TrainerError(Exception):
    """A run cannot start or go on; the message says why and what to do."""


class CheckpointError(TrainerError):
    """A checkpoint that cannot be read, or a state that must not be saved."""


class CommandError(Exception):
    """A subcommand cannot do what it was asked; shown as one message without a traceback, exit status 1."""
