"""What PettingZoo's two kinds of environments show alike: who there is, and their spaces."""

from __future__ import annotations

from typing import Any

from ..side_channels import SideChannel
from .cast import Cast


class ShownCast:
    """The agents of an engine, as a `ParallelEnv` and an `AECEnv` both tell of them."""

    _cast: Cast

    @property
    def possible_agents(self) -> list[str]:
        """As many agents as there were at once so far. It grows when an engine shows more."""
        return self._cast.possible

    @property
    def observation_spaces(self) -> dict[str, Any]:
        """Of all possible agents."""
        return self._cast.observation_spaces

    @property
    def action_spaces(self) -> dict[str, Any]:
        """Of all possible agents."""
        return self._cast.action_spaces

    def observation_space(self, agent: str) -> Any:
        """What an agent sees."""
        return self._cast.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What an agent can do."""
        return self._cast.action_spaces[agent]

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The engine's side channels by the names of their classes, where this package has launched it."""
        return self._cast.side_channel

    def render(self) -> None:
        """Nothing: engines draw their own windows."""

    def close(self) -> None:
        """End the engine; a second time does nothing."""
        self._cast.close()
