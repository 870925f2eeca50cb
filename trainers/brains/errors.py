"""What exporting refuses."""


class BrainVerificationError(Exception):
    """A brain that must not be written; the message says what is wrong with it."""
