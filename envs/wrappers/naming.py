"""What PettingZoo is told of an environment besides its agents."""

from __future__ import annotations

from typing import Any

from mlagents_envs.base_env import BaseEnv

METADATA: dict[str, Any] = {"render_modes": []}


def title(env: BaseEnv) -> str:
    """A name for logs: the engine's file or scene where it is known."""
    return str(getattr(env, "name", None) or type(env).__name__)
