"""The engine loop that all wrappers share, for agents in slots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mlagents_envs.base_env import ActionTuple, BaseEnv

from ..base import MAX_IDLE_STEPS, BehaviorName
from ..engines.terms import advice
from ..side_channels import SideChannel
from .agents import SlottedAgents
from .errors import UnityGymException, no_environment

logger = logging.getLogger(__name__)

PARAMETERS = "parameters"
"""The key in `reset`'s options for values of the engine's environment parameters."""


class EngineStepper:
    """A BaseEnv and the agents of its behaviors.

    The engine starts an agent's next episode by itself. `reset` restarts all of them.
    """

    def __init__(self, env: BaseEnv) -> None:
        """Reset the engine, so that it reports its behaviors.

        Raises:
            UnityGymException: No agent requests a decision.
        """
        self.batches: dict[str, SlottedAgents] = {}
        self._env: BaseEnv | None = env
        self._is_fresh = False
        """Nothing has happened since the reset that followed the engine's start."""
        self._warned = False
        self._restart_episodes()
        self._is_fresh = True

    @property
    def env(self) -> BaseEnv:
        """The engine.

        Raises:
            UnityGymException: The environment is closed.
        """
        if self._env is None:
            raise no_environment()
        return self._env

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The side channels by class name; empty unless this package launched the engine."""
        return getattr(self.env, "side_channel", {})

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Restart all episodes, and wait for the first decision request.

        With a seed the sequence that follows is reproducible if the engine is deterministic: the engine is
        restarted unless it has just been started with this seed.

        Args:
            seed: Seeds the engine's random numbers; None leaves them as they are.
            options: `parameters`: values for the engine's environment parameters. Other keys are ignored.

        Raises:
            UnityGymException: The environment is closed, or no agent requests a decision.
        """
        _ = self.env  # closed?
        if seed is not None:
            self._reseed(seed)
        if options and PARAMETERS in options:
            self._set_parameters(options[PARAMETERS])
            self._is_fresh = False
        if not self._is_fresh:
            self._restart_episodes()
        self._is_fresh = False

    def step(self, actions: Mapping[str, ActionTuple], is_done: Callable[[], bool]) -> None:
        """Send actions for the requested decisions, and step the engine until `is_done`.

        Args:
            actions: By behavior, an action per slot: [n, continuous], [n, branches]. Missing ones are zeros.
            is_done: Checked after each message of the engine. Agents that request a decision in a message
                in between get zeros.

        Raises:
            UnityGymException: The environment is closed, or the engine is silent.
        """
        env = self.env
        self._is_fresh = False
        for name, batch in self.batches.items():
            rows = batch.select_requested(actions[name]) if name in actions else None
            if rows is not None:
                env.set_actions(name, rows)
            batch.start_step()
        env.step()
        self._update()
        self._step_until(is_done)

    def any_asks(self) -> bool:
        """Whether an agent requests a decision."""
        return any(batch.asks.any() for batch in self.batches.values())

    def close(self) -> None:
        """Close the engine; a second time does nothing."""
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def _restart_episodes(self) -> None:
        env = self.env
        for batch in self.batches.values():
            batch.clear()
        env.reset()
        self._update()
        self._step_until(self.any_asks)

    def _step_until(self, is_done: Callable[[], bool]) -> None:
        for _ in range(MAX_IDLE_STEPS):
            if is_done():
                return
            self.env.step()
            self._update()
        raise UnityGymException(
            f"In {MAX_IDLE_STEPS} messages of the engine no agent has requested a decision: those of "
            f"{', '.join(self.batches) or 'no behavior at all'} are silent. {advice([self.env])}"
        )

    def _update(self) -> None:
        for name, spec in self.env.behavior_specs.items():
            if name not in self.batches:
                self.batches[name] = SlottedAgents(name, spec)
            self.batches[name].update(self.env.get_steps(name))

    def _reseed(self, seed: int) -> None:
        reseed = getattr(self.env, "reseed", None)
        if reseed is None:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The seed %d does not reach the engine, which got its seed when it was started. Engines "
                    "that make_gym and its siblings launch are restarted for a seed, except an editor's and "
                    "with reseed=False.",
                    seed,
                )
            return
        if reseed(seed, self._is_fresh):
            self._restart_episodes()
            self._is_fresh = True

    def _set_parameters(self, parameters: Mapping[str, object]) -> None:
        set_parameters = getattr(self.env, "set_parameters", None)
        if set_parameters is None:
            raise UnityGymException(
                f"reset() got {PARAMETERS}, but {type(self.env).__name__} has no set_parameters()."
            )
        set_parameters(parameters)


def batches_of_one_behavior(stepper: EngineStepper) -> list[SlottedAgents]:
    """The agents of the only behavior, one batch per team.

    Raises:
        UnityGymException: There are several behaviors.
    """
    batches = list(stepper.batches.values())
    names = {BehaviorName.parse(batch.name).name for batch in batches}
    if len(names) > 1:
        raise UnityGymException(
            "There can only be one behavior in a UnityEnvironment if it is wrapped in a gym, but "
            f"{len(names)} were found: {', '.join(sorted(stepper.batches))}. UnityParallelEnv and "
            "UnityAECEnv accept several."
        )
    return batches
