"""What a command says when it cannot do what it was asked."""


class CommandError(Exception):
    """Shown as one message without a traceback; the command ends with status 1."""
