"""What networks refuse."""


class UnsupportedObservationError(ValueError):
    """An observation that no encoder takes."""
