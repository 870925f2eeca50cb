"""Networks that are too large for the machine, named by the key that made them so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..settings.models.networks import NetworkSettings
from ..utils.errors import TrainerError, is_out_of_memory


@contextmanager
def naming_key_of_allocation(path: str, settings: NetworkSettings) -> Iterator[None]:
    """Make of a failed allocation a sentence that names the settings; `path`: where they stand.

    Raises:
        TrainerError: there is not enough memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0]
        raise TrainerError(
            f"{path}: its networks do not fit into memory ({reason or 'it is used up'}). hidden_units is "
            f"{settings.hidden_units} and num_layers {settings.num_layers}: use narrower or fewer layers."
        ) from error
