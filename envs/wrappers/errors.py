"""Errors of the Gymnasium and PettingZoo wrappers."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import Error


class UnityGymException(Error):  # type: ignore[misc]  # noqa: N818
    """The engine does not fit the interface, or the interface is misused. ML-Agents' name."""


def no_environment() -> UnityGymException:
    """The error for an environment that is closed."""
    return UnityGymException("No environment loaded: it was closed. Make a new one.")


def must_reset(why: str) -> UnityGymException:
    """The error for an action without a running episode."""
    return UnityGymException(f"{why} Call reset() to start the next episode.")


def invalid_action(action: Any, space: Any, why: str, whose: str = "") -> UnityGymException:
    """The error for an action outside its space."""
    found = f"an array of shape {action.shape} and type {action.dtype}" if _array(action) else repr(action)
    return UnityGymException(
        f"Invalid action{whose}, got {found} but was expecting action from {space}: {why}."
    )


def _array(action: Any) -> bool:
    return isinstance(action, np.ndarray) and action.size > 8
