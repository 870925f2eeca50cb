"""What goes wrong between an engine and those who use it as Gymnasium's or PettingZoo's."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import Error


class UnityGymException(Error):  # type: ignore[misc]  # noqa: N818
    """An engine is not such an environment, or the environment is not used as one. ML-Agents' name."""


def no_environment() -> UnityGymException:
    """It has been closed."""
    return UnityGymException("No environment loaded: it was closed. Make a new one.")


def must_reset(why: str) -> UnityGymException:
    """An action was given where nobody waits for one."""
    return UnityGymException(f"{why} Call reset() to begin the next episode.")


def invalid_action(action: Any, space: Any, why: str, whose: str = "") -> UnityGymException:
    """An action is not of its space."""
    found = f"an array of shape {action.shape} and type {action.dtype}" if _array(action) else repr(action)
    return UnityGymException(
        f"Invalid action{whose}, got {found} but was expecting action from {space}: {why}."
    )


def _array(action: Any) -> bool:
    return isinstance(action, np.ndarray) and action.size > 8
