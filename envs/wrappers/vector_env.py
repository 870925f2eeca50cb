"""An engine with many agents of one behaviour as a vectorised environment of Gymnasium.

What a vectorised environment tells besides observations, rewards and ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space
from mlagents_envs.base_env import ActionTuple, BaseEnv
from numpy.typing import NDArray

from ..side_channels import SideChannel
from .agents import VACANT, Crew
from .errors import UnityGymException, must_reset
from .rendering import RENDER_MODES, check_render_mode
from .spaces import Actions, View, gym_view
from .stepper import Play, crews_of_one_behavior

try:
    from gymnasium.vector import AutoresetMode
except ImportError as error:
    raise ImportError(
        f"Vectorised environments need gymnasium 1.1 or later, found {gymnasium.__version__}."
    ) from error


class UnityVectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[misc]
    """All agents of a behaviour as a `gymnasium.vector.VectorEnv`: a slot is a sub-environment.

    Engines begin an agent's next episode by themselves, and tell its first observation in the same message as
    the end of the last one. So the mode is `AutoresetMode.SAME_STEP`: what was seen at the end is
    `infos["final_obs"]`. (With `NEXT_STEP`, the first action of every episode would be lost.)

    A step lasts until an agent asks for an action. Who does not ask, because it acts at another pace or its
    next episode has not begun, has the reward 0, its observation as it was, and False in `infos["asks"]`. The
    action that is given for it is not used. No reward is lost thereby: the engine tells it when it tells of
    the agent again. Learners may leave such rows out.

    `infos` has, each with a mask under `_` and its name: `asks`; `agent_id`, the engine's ids of agents and
    episodes, -1 where nobody is; `group_id`, `group_reward`; and where there are branches `action_mask`,
    int8 [n, sizes of all branches], 1 where an action is allowed.
    """

    metadata = {  # noqa: RUF012
        "render_modes": RENDER_MODES,
        "render_fps": 20,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        env: BaseEnv,
        num_envs: int | None = None,
        *,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
        add_group_reward: bool = False,
        action_space_seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Reset the engine and look at what it shows.

        Args:
            env: An engine whose agents are of one behaviour; its teams' observations and actions must be
                alike, and are put one behind the other.
            num_envs: How many slots; by default as many as agents ask for an action at first. Give it where
                some come later.
            uint8_visual: As of `UnityToGymWrapper`.
            flatten_branched: Likewise.
            allow_multiple_obs: Likewise.
            add_group_reward: The group's reward is added to the agents' own.
            action_space_seed: Of the action spaces' `sample`.
            render_mode: None, or `rgb_array` where agents see a picture.

        Raises:
            UnityGymException: There are several behaviours, teams that are not alike, more agents than slots,
                nothing to see or to do, or no picture to render.
        """
        self._play = Play(env)
        self._crews = crews_of_one_behavior(self._play)
        self._add_group_reward = add_group_reward
        spec = self._alike()
        self.num_envs = self._reserve(num_envs)
        self._view = gym_view(spec.observation_specs, uint8_visual, allow_multiple_obs)
        self._actions = Actions(spec.action_spec, flatten_branched)
        self.single_observation_space = self._view.space
        self.single_action_space = self._actions.space
        self.observation_space = batch_space(self._view.space, self.num_envs)
        self.action_space = batch_space(self._actions.space, self.num_envs)
        if action_space_seed is not None:
            self.single_action_space.seed(action_space_seed)
            self.action_space.seed(action_space_seed)
        self.render_mode = render_mode
        self._picture = check_render_mode(render_mode, env, spec)
        self._begun = False

    @property
    def names(self) -> list[str]:
        """Of each slot, the engine's full name of its behaviour."""
        return [crew.name for crew in self._crews for _ in range(len(crew))]

    @property
    def observation_keys(self) -> list[str]:
        """Names for the parts of a Tuple of observations: `visual_0`, ..., `set_0`, ..., `vector`."""
        return self._view.keys

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The engine's side channels by the names of their classes, where this package has launched it."""
        return self._play.side_channel

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Let the engine begin all episodes anew.

        Args:
            seed: Of the engine's chance from now on: an engine that this package launched is started again.
            options: `parameters`: a dict of values for the engine's environment parameters.

        Returns:
            The observations and the infos; zeros for who is not asked at first.

        Raises:
            UnityGymException: The environment is closed, there are more agents than slots, or `reset_mask`
                asks for single slots to begin anew, which an engine cannot do.
        """
        if options and "reset_mask" in options:
            raise UnityGymException(
                "reset_mask asks for some slots to begin anew, but an engine can only begin all anew."
            )
        super().reset(seed=seed)
        self._play.reset(seed, options)
        self._check_size()
        self._begun = True
        return self._view.of(self._obs()), infos_of(self._crews, self._actions)

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Let the agents act.

        Args:
            actions: Of the action space: one for each slot, with n in front of every shape.

        Returns:
            Observations, rewards, terminations, truncations [n], infos.

        Raises:
            UnityGymException: The environment is closed or was not reset, an action is not of its space, or
                there are more agents than slots.
        """
        _ = self._play.env  # closed?
        if not self._begun:
            raise must_reset("You are calling step() before the first episode.")
        self._play.step(self._split(self._actions.of(actions, self.num_envs)), self._play.anybody_asks)
        self._check_size()
        infos = infos_of(self._crews, self._actions)
        tell_of_ends(infos, self._crews, self._view)
        rewards = joined([crew.reward for crew in self._crews]).astype(np.float64)
        if self._add_group_reward:
            rewards += infos["group_reward"]
        terminated = joined([crew.terminated for crew in self._crews])
        truncated = joined([crew.truncated for crew in self._crews])
        return self._view.of(self._obs()), rewards, terminated, truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """What each slot's agent sees now, [height, width, 3]; None without a render mode."""
        if self._picture is None:
            return None
        places = [(crew, slot) for crew in self._crews for slot in range(len(crew))]
        return tuple(self._picture.of(self._play.env, crew, slot) for crew, slot in places)

    def close_extras(self, **kwargs: Any) -> None:
        """End the engine."""
        self._play.close()

    def _alike(self) -> Any:
        """The specification of all teams."""
        first, *others = [crew.spec for crew in self._crews]
        for crew, spec in zip(self._crews[1:], others):
            shapes = [[sensor.shape for sensor in each.observation_specs] for each in (first, spec)]
            if shapes[0] != shapes[1] or first.action_spec != spec.action_spec:
                raise UnityGymException(
                    f"The teams {self._crews[0].name} and {crew.name} see or do different things: they have "
                    "no common space. UnityParallelEnv and UnityAECEnv take them."
                )
        return first

    def _reserve(self, num_envs: int | None) -> int:
        found = sum(map(len, self._crews))
        if num_envs is not None and num_envs > found:
            if len(self._crews) > 1:
                raise UnityGymException(
                    f"num_envs is {num_envs}, but {found} agents were found, of several teams; leave it out."
                )
            self._crews[0].reserve(num_envs)
        self.num_envs = num_envs or found
        self._check_size()
        return self.num_envs

    def _check_size(self) -> None:
        if len(self._play.crews) == len(self._crews) and sum(map(len, self._crews)) <= self.num_envs:
            return
        crews = crews_of_one_behavior(self._play)
        found = sum(map(len, crews))
        if found > self.num_envs or any(map(len, crews[len(self._crews) :])):
            raise UnityGymException(
                f"The environment has {self.num_envs} slots, but {found} agents of "
                f"{', '.join(crew.name for crew in crews)} were there at once. Give num_envs={found}."
            )

    def _split(self, action: ActionTuple) -> dict[str, ActionTuple]:
        ends = np.cumsum([len(crew) for crew in self._crews])[:-1]
        parts = zip(np.split(action.continuous, ends), np.split(action.discrete, ends))
        return {crew.name: ActionTuple(*part) for crew, part in zip(self._crews, parts)}

    def _obs(self) -> list[NDArray[Any]]:
        sensors = zip(*(crew.obs for crew in self._crews))
        return [joined(arrays) for arrays in sensors]


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The crews' [n, ...] one behind the other."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def infos_of(crews: Sequence[Crew], actions: Actions) -> dict[str, Any]:
    """What is known of every slot: an array [n] for each name, and under `_` and the name who has it."""
    told: dict[str, Any] = {
        "asks": joined([crew.asks for crew in crews]).copy(),
        "agent_id": joined([crew.slots.holders for crew in crews]).copy(),
        "group_id": np.maximum(joined([crew.slots.groups for crew in crews]), 0),
        "group_reward": joined([crew.group_reward for crew in crews]).copy(),
    }
    if crews[0].forbidden:
        branches = zip(*(crew.forbidden for crew in crews))
        told["action_mask"] = actions.masks([joined(branch) for branch in branches])
    slots = len(told["asks"])
    return told | {f"_{key}": np.ones(slots, np.bool_) for key in told}


def tell_of_ends(infos: dict[str, Any], crews: Sequence[Crew], view: View) -> None:
    """Add `final_obs` and `final_info` where episodes have ended."""
    slots = sum(map(len, crews))
    last = np.full(slots, None, object)
    over = np.zeros(slots, np.bool_)
    agents = np.full(slots, VACANT, np.int64)
    first = 0
    for crew in crews:
        for ended in crew.ended:
            seen = view.of(ended.obs)
            for row, slot in enumerate(ended.slots + first):
                last[slot] = view.row(seen, row)
            over[ended.slots + first] = True
            agents[ended.slots + first] = ended.agent_id
        first += len(crew)
    if over.any():
        final = {"agent_id": agents, "_agent_id": over.copy()}
        infos.update(final_obs=last, _final_obs=over.copy(), final_info=final, _final_info=over)
