"""An engine with one agent as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from numpy.typing import NDArray

from ..side_channels import SideChannel
from .actions import ActionConverter, flat_converter
from .agents import SlottedAgents
from .errors import UnityGymException, must_reset
from .rendering import RENDER_MODES, check_render_mode
from .spaces import gym_observations
from .stepper import EngineStepper, batches_of_one_behavior


class UnityToGymWrapper(gymnasium.Env):  # type: ignore[misc]
    """The only agent of a BaseEnv as a `gymnasium.Env`.

    A step lasts until the agent requests its next decision, or its episode ends: `terminated`, or `truncated`
    if the engine interrupted it. Then call `reset`.

    `info` contains `agent_id`, the engine's id of the agent; `group_id` and `group_reward`; and
    `action_mask`, in the form that the action space's `sample` takes, if there are branches and the agent
    requests a decision.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        unity_env: BaseEnv,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
        action_space_seed: int | None = None,
        *,
        flatten_actions: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Reset the engine and read its behavior.

        Args:
            unity_env: An engine that has one agent.
            uint8_visual: Images are uint8, 0 to 255, instead of float32, 0 to 1. [channels, height, width].
            flatten_branched: Flatten several branches to one Discrete over all combinations.
            allow_multiple_obs: Observations are a Tuple: every image, every entity list, and all vectors
                concatenated. Without it, the first image, else the vectors, else the first entity list.
            action_space_seed: Seeds the action space's `sample`.
            flatten_actions: Continuous actions and branches are one Box; see `FlatActionConverter`.
            render_mode: None, or `rgb_array` if there is an image.

        Raises:
            UnityGymException: There are several behaviors or agents, no observations or no actions, branches
                to flatten next to continuous actions, or no image to render.
        """
        self._stepper = EngineStepper(unity_env)
        self.render_mode = render_mode
        self.game_over = True
        """Whether `reset` must be called."""
        self._agent = next(iter(self._stepper.batches.values()))
        self._agent = self._only_agent()
        spec = self._agent.spec
        self._observations = gym_observations(spec.observation_specs, uint8_visual, allow_multiple_obs)
        self._actions = ActionConverter(spec.action_spec, flatten_branched)
        self._flat = flat_converter(spec.action_spec, flatten_branched) if flatten_actions else None
        self.observation_space = self._observations.space
        self.action_space = self._actions.space if self._flat is None else self._flat.space
        if action_space_seed is not None:
            self.action_space.seed(action_space_seed)
        self._frames = check_render_mode(render_mode, unity_env, spec)

    @property
    def name(self) -> str:
        """The engine's full name of the behavior."""
        return self._agent.name

    @property
    def group_spec(self) -> BehaviorSpec:
        """The behavior's specification. ML-Agents' name."""
        return self._agent.spec

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The side channels by class name; empty unless this package launched the engine."""
        return self._stepper.side_channel

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds the engine, which is restarted for it if this package launched it.
            options: `parameters`: a dict of values for the engine's environment parameters.

        Returns:
            The observation and the info.

        Raises:
            UnityGymException: The environment is closed, or the engine has several agents or behaviors.
        """
        super().reset(seed=seed)
        self._stepper.reset(seed, options)
        self._only_agent()
        self.game_over = False
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Send the agent's action and step the engine.

        Args:
            action: In the action space.

        Returns:
            Observation, reward, terminated, truncated, info.

        Raises:
            UnityGymException: The environment is closed, `reset` must be called, the action is not in its
                space, or the engine has several agents or behaviors.
        """
        _ = self._stepper.env  # closed?
        if self.game_over:
            raise must_reset("You are calling step() although the episode has ended, or none has started.")
        batch = self._agent
        if self._flat is None:
            chosen = self._actions.convert_one(action)
        else:
            chosen = self._flat.convert(np.asarray(action)[None], 1, batch.forbidden)
        self._stepper.step({batch.name: chosen}, self._has_settled)
        self._only_agent()
        terminated, truncated = bool(batch.terminated[0]), bool(batch.truncated[0])
        self.game_over = terminated or truncated
        return self._observation(), float(batch.reward[0]), terminated, truncated, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """The current frame, [height, width, 3]; None without a render mode."""
        if self._frames is None:
            return None
        return self._frames.render(self._stepper.env, self._agent, 0)

    def close(self) -> None:
        """Close the engine; does nothing if it is closed."""
        self._stepper.close()

    def _has_settled(self) -> bool:
        batch = self._agent
        return bool(batch.asks[0] or batch.ended)

    def _only_agent(self) -> SlottedAgents:
        if len(self._stepper.batches) == 1 and len(self._agent) == 1:
            return self._agent
        (batch, *others) = batches_of_one_behavior(self._stepper)
        agents = sum(map(len, (batch, *others)))
        if agents != 1:
            raise UnityGymException(
                f"There can only be one Agent in the environment but {agents} were detected. UnityVectorEnv "
                "accepts several of one behavior, UnityParallelEnv and UnityAECEnv any."
            )
        return batch

    def _observation(self) -> Any:
        """The agent's observation; the final one when its episode has ended."""
        obs = self._agent.ended[-1].obs if self._agent.ended else self._agent.obs
        return self._observations.row(self._observations.convert(obs), 0)

    def _info(self) -> dict[str, Any]:
        batch = self._agent
        info: dict[str, Any] = {
            "agent_id": int(batch.ended[-1].agent_id[0] if batch.ended else batch.slots.holders[0]),
            "group_id": int(batch.slots.groups[0]),
            "group_reward": float(batch.group_reward[0]),
        }
        if batch.forbidden and not batch.ended:
            mask = self._actions.mask([mask[0] for mask in batch.forbidden])
            info["action_mask"] = mask if self._flat is None else self._actions.masks(batch.forbidden)[0]
        return info
