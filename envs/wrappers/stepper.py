"""An engine stepped for agents who hold slots: behind all of the wrappers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mlagents_envs.base_env import ActionTuple, BaseEnv

from ..base import BehaviorName
from ..side_channels import SideChannel
from .agents import Crew
from .errors import UnityGymException, no_environment

logger = logging.getLogger(__name__)

PATIENCE = 10_000
"""Messages of an engine in which nobody who may act is asked, before it is given up."""

PARAMETERS = "parameters"
"""The option of `reset` with values for the engine's environment parameters."""


class Play:
    """A BaseEnv and the crews of its behaviours.

    The engine begins an agent's next episode by itself. `reset` makes it begin all of them anew.
    """

    def __init__(self, env: BaseEnv) -> None:
        """Reset the engine, so that it shows its behaviours.

        Raises:
            UnityGymException: No agent asks for an action.
        """
        self.crews: dict[str, Crew] = {}
        self._env: BaseEnv | None = env
        self._untouched = False
        """The engine stands as its first reset since its start has left it."""
        self._warned = False
        self._begin_anew()
        self._untouched = True

    @property
    def env(self) -> BaseEnv:
        """What is stepped.

        Raises:
            UnityGymException: It has been closed.
        """
        if self._env is None:
            raise no_environment()
        return self._env

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The engine's side channels by the names of their classes, where this package has launched it."""
        return getattr(self.env, "side_channel", {})

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Let the engine begin anew, and wait until somebody asks for an action.

        What comes after a given seed is always the same, as far as the engine is deterministic: unless it
        has just been started with this seed, it is started again.

        Args:
            seed: Of the engine's chance from now on; None leaves it as it is.
            options: `parameters`: values for the engine's environment parameters. Others are ignored.

        Raises:
            UnityGymException: It has been closed, or no agent asks for an action.
        """
        _ = self.env  # closed?
        if seed is not None:
            self._reseed(seed)
        if options and PARAMETERS in options:
            self._set_parameters(options[PARAMETERS])
            self._untouched = False
        if not self._untouched:
            self._begin_anew()
        self._untouched = False

    def step(self, actions: Mapping[str, ActionTuple], enough: Callable[[], bool]) -> None:
        """Let those act who wait for it, and the engine go on until it has told enough.

        Args:
            actions: By behaviour, an action for each slot: [n, continuous], [n, branches]. Without, zeros.
            enough: Asked after each of the engine's messages. Who waits for an action in one that was not
                enough gets zeros.

        Raises:
            UnityGymException: It has been closed, or the engine never tells enough.
        """
        env = self.env
        self._untouched = False
        for name, crew in self.crews.items():
            rows = crew.rows(actions[name]) if name in actions else None
            if rows is not None:
                env.set_actions(name, rows)
            crew.begin()
        env.step()
        self._take()
        self._go_on_until(enough)

    def anybody_asks(self) -> bool:
        """Whether an agent waits for an action."""
        return any(crew.asks.any() for crew in self.crews.values())

    def close(self) -> None:
        """Close the engine; a second time does nothing."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def _begin_anew(self) -> None:
        env = self.env
        for crew in self.crews.values():
            crew.clear()
        env.reset()
        self._take()
        self._go_on_until(self.anybody_asks)

    def _go_on_until(self, enough: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            if enough():
                return
            self.env.step()
            self._take()
        raise UnityGymException(
            f"In {PATIENCE} messages of the engine no agent has asked for an action: those of "
            f"{', '.join(self.crews) or 'no behaviour at all'} are silent. In Unity, agents ask if they have "
            "a Decision Requester, or call RequestDecision."
        )

    def _take(self) -> None:
        for name, spec in self.env.behavior_specs.items():
            if name not in self.crews:
                self.crews[name] = Crew(name, spec)
            self.crews[name].take(self.env.get_steps(name))

    def _reseed(self, seed: int) -> None:
        reseed = getattr(self.env, "reseed", None)
        if reseed is None:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The seed %d does not reach the engine, which got its seed when it was started. What "
                    "make_gym and its like have launched is started again for a seed, but for the Editor and "
                    "with reseed=False.",
                    seed,
                )
            return
        if reseed(seed, self._untouched):
            self._begin_anew()
            self._untouched = True

    def _set_parameters(self, parameters: Mapping[str, object]) -> None:
        set_parameters = getattr(self.env, "set_parameters", None)
        if set_parameters is None:
            raise UnityGymException(
                f"reset() got {PARAMETERS}, but {type(self.env).__name__} has no set_parameters()."
            )
        set_parameters(parameters)


def crews_of_one_behavior(play: Play) -> list[Crew]:
    """The crews of the only behaviour, one for each of its teams.

    Raises:
        UnityGymException: There are several behaviours.
    """
    crews = list(play.crews.values())
    names = {BehaviorName.parse(crew.name).name for crew in crews}
    if len(names) > 1:
        raise UnityGymException(
            "There can only be one behavior in a UnityEnvironment if it is wrapped in a gym, but "
            f"{len(names)} were found: {', '.join(sorted(play.crews))}. UnityParallelEnv and UnityAECEnv "
            "take several."
        )
    return crews
