"""An engine with one agent as an environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from numpy.typing import NDArray

from ..side_channels import SideChannel
from .agents import Crew
from .errors import UnityGymException, must_reset
from .rendering import RENDER_MODES, check_render_mode
from .spaces import Actions, gym_view
from .stepper import Play, crews_of_one_behavior


class UnityToGymWrapper(gymnasium.Env):  # type: ignore[misc]
    """The only agent of a BaseEnv as a `gymnasium.Env`.

    A step lasts until the agent asks for its next action, or its episode ends: `terminated`, or `truncated`
    where the engine interrupted it. Then `reset` is due.

    `info` has `agent_id`, the engine's id of the agent and episode; `group_id` and `group_reward`; and
    `action_mask` where there are branches and the agent asks, as the action space's `sample` takes it.
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
        render_mode: str | None = None,
    ) -> None:
        """Reset the engine and look at what it shows.

        Args:
            unity_env: An engine that has one agent.
            uint8_visual: Pictures are bytes 0 to 255, instead of float32 0 to 1. [channels, height, width].
            flatten_branched: Several branches become one Discrete over all combinations.
            allow_multiple_obs: Observations are a Tuple: every picture, every set, all vectors as one.
                Without it they are the first picture, else the vectors as one, else the first set.
            action_space_seed: Of the action space's `sample`.
            render_mode: None, or `rgb_array` where there is a picture.

        Raises:
            UnityGymException: There are several behaviours or agents, nothing to see or to do, branches to
                flatten beside continuous actions, or no picture to render.
        """
        self._play = Play(unity_env)
        self.render_mode = render_mode
        self.game_over = True
        """An episode must be begun by `reset`."""
        self._crew = next(iter(self._play.crews.values()))
        self._crew = self._only_agent()
        spec = self._crew.spec
        self._view = gym_view(spec.observation_specs, uint8_visual, allow_multiple_obs)
        self._actions = Actions(spec.action_spec, flatten_branched)
        self.observation_space = self._view.space
        self.action_space = self._actions.space
        if action_space_seed is not None:
            self.action_space.seed(action_space_seed)
        self._picture = check_render_mode(render_mode, unity_env, spec)

    @property
    def name(self) -> str:
        """The engine's full name of the behaviour."""
        return self._crew.name

    @property
    def group_spec(self) -> BehaviorSpec:
        """What the agent sees and does, as the engine tells it."""
        return self._crew.spec

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The engine's side channels by the names of their classes, where this package has launched it."""
        return self._play.side_channel

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Of the engine's chance from now on: an engine that this package launched is started again.
            options: `parameters`: a dict of values for the engine's environment parameters.

        Returns:
            The observation and the info.

        Raises:
            UnityGymException: The environment is closed, or the engine has several agents or behaviours.
        """
        super().reset(seed=seed)
        self._play.reset(seed, options)
        self._only_agent()
        self.game_over = False
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let the agent act.

        Args:
            action: Of the action space.

        Returns:
            Observation, reward, terminated, truncated, info.

        Raises:
            UnityGymException: The environment is closed, `reset` is due, the action is not of its space, or
                the engine has several agents or behaviours.
        """
        _ = self._play.env  # closed?
        if self.game_over:
            raise must_reset("You are calling step() although the episode has ended, or none has begun.")
        crew = self._crew
        self._play.step({crew.name: self._actions.one(action)}, self._settled)
        self._only_agent()
        terminated, truncated = bool(crew.terminated[0]), bool(crew.truncated[0])
        self.game_over = terminated or truncated
        return self._seen(), float(crew.reward[0]), terminated, truncated, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """What is to be seen now, [height, width, 3]; None without a render mode."""
        if self._picture is None:
            return None
        return self._picture.of(self._play.env, self._crew, 0)

    def close(self) -> None:
        """End the engine; a second time does nothing."""
        self._play.close()

    def _settled(self) -> bool:
        crew = self._crew
        return bool(crew.asks[0] or crew.ended)

    def _only_agent(self) -> Crew:
        if len(self._play.crews) == 1 and len(self._crew) == 1:
            return self._crew
        (crew, *others) = crews_of_one_behavior(self._play)
        agents = sum(map(len, (crew, *others)))
        if agents != 1:
            raise UnityGymException(
                f"There can only be one Agent in the environment but {agents} were detected. UnityVectorEnv "
                "takes several of one behavior, UnityParallelEnv and UnityAECEnv any."
            )
        return crew

    def _seen(self) -> Any:
        """What the agent sees, or saw at the end of its episode."""
        obs = self._crew.ended[-1].obs if self._crew.ended else self._crew.obs
        return self._view.row(self._view.of(obs), 0)

    def _info(self) -> dict[str, Any]:
        crew = self._crew
        info: dict[str, Any] = {
            "agent_id": int(crew.ended[-1].agent_id[0] if crew.ended else crew.slots.holders[0]),
            "group_id": int(crew.slots.groups[0]),
            "group_reward": float(crew.group_reward[0]),
        }
        if crew.forbidden and not crew.ended:
            info["action_mask"] = self._actions.mask([mask[0] for mask in crew.forbidden])
        return info
