"""Which actions an agent may take, as environments of PettingZoo and Gymnasium tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ACTION_MASK = "action_mask"
"""The part of an observation, or of an info, that tells which actions are allowed."""


def given_mask(observation: Any, info: Mapping[str, Any] | None) -> Any:
    """1 where an action is allowed, in the form of `Space.sample`; None: all are."""
    if isinstance(observation, Mapping) and ACTION_MASK in observation:
        return observation[ACTION_MASK]
    return info.get(ACTION_MASK) if info else None


def forbidden(mask: Any, branches: Sequence[int]) -> NDArray[np.bool_]:
    """[sum of branches] True where an action is not allowed, from a mask in the form of `Space.sample`.

    Args:
        mask: 1 where an action is allowed; one array for Discrete, a tuple or list of arrays for several
            branches.
        branches: The sizes.

    Raises:
        ValueError: The mask does not have as many entries as there are actions.
    """
    flat = _flat(mask)
    if flat.size != sum(branches):
        raise ValueError(
            f"An action mask has {flat.size} entries; the branches {tuple(branches)} need {sum(branches)}."
        )
    closed: NDArray[np.bool_] = np.logical_not(flat)
    return closed


def _flat(mask: Any) -> NDArray[Any]:
    """All entries in a row; what is nested may be of unequal lengths."""
    if isinstance(mask, (tuple, list)) and mask:
        return np.concatenate([_flat(part) for part in mask])
    return np.ravel(mask)
