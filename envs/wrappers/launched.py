"""Engines as the wrappers have them started; again, when they are to have another seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from ..side_channels import SideChannel
from ..steps import BehaviorSteps

SEEDS = 2**31
"""The wire has 32 bits for a seed, one of them for the sign."""


class LaunchedEnvironment(BaseEnv):  # type: ignore[misc]
    """An engine and the side channels that it was given."""

    def __init__(
        self, start: Callable[[int], BaseEnv], seed: int, name: str = "", channels: Sequence[SideChannel] = ()
    ) -> None:
        """Start it.

        Args:
            start: Starts the engine with a seed. What it returns is closed before it is called again.
            seed: 0 or more; what does not fit in 31 bits is taken modulo 2**31.
            name: For messages.
            channels: What the engine was given.
        """
        self.name = name
        self.seed = int(seed) % SEEDS
        self.side_channel = {type(channel).__name__: channel for channel in channels}
        """The channels by the names of their classes, as ML-Agents' PettingZoo wrappers have them."""
        self._start = start
        self._parameters: dict[str, object] = {}
        self._env = start(self.seed)
        self._loaded = True

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours that the engine has shown so far."""
        return self._env.behavior_specs  # type: ignore[no-any-return]

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters, numbers or samplers; they arrive with the next step or reset.

        Raises:
            UnityEnvironmentException: The environment takes none.
        """
        take = getattr(self._env, "set_parameters", None)
        if take is None:
            raise UnityEnvironmentException(
                f"{self.name} takes no parameters; give its own arguments behind its name, as in "
                "NAME?key=value."
            )
        take(parameters)
        self._parameters.update(parameters)

    def reset(self) -> None:
        """As of the engine."""
        self._env.reset()

    def step(self) -> None:
        """As of the engine."""
        self._env.step()

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """As of the engine."""
        return self._env.get_steps(behavior_name)  # type: ignore[no-any-return]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """As of the engine."""
        self._env.set_actions(behavior_name, action)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """As of the engine."""
        self._env.set_action_for_agent(behavior_name, agent_id, action)

    def close(self) -> None:
        """End the engine; nothing where a start has failed."""
        if self._loaded:
            self._loaded = False
            self._env.close()


class ReseededEnvironment(LaunchedEnvironment):
    """An engine that is started again for another seed: it gets its seed at its start."""

    def reseed(self, seed: int, untouched: bool = False) -> bool:
        """Start the engine again with a seed, unless it is `untouched` since its start and has this seed.

        Environment parameters that were set by `set_parameters` stay set.

        Returns:
            Whether it was started again; it is to be reset then.
        """
        seed = int(seed) % SEEDS
        if untouched and seed == self.seed:
            return False
        self._env.close()
        self._loaded = False
        self._env, self.seed = self._start(seed), seed
        self._loaded = True
        if self._parameters:
            self._env.set_parameters(self._parameters)
        return True
