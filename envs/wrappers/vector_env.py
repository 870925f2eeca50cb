"""An engine with many agents of one behavior as a Gymnasium vector environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space
from mlagents_envs.base_env import ActionTuple, BaseEnv
from numpy.typing import NDArray

from ..side_channels import SideChannel
from .actions import ActionConverter, flat_converter
from .agents import VACANT, SlottedAgents
from .errors import UnityGymException, must_reset
from .rendering import RENDER_MODES, check_render_mode
from .spaces import ObservationConverter, gym_observations
from .stepper import EngineStepper, batches_of_one_behavior

try:
    from gymnasium.vector import AutoresetMode
except ImportError as error:
    raise ImportError(
        f"Vector environments need gymnasium 1.1 or later, found {gymnasium.__version__}."
    ) from error


class UnityVectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[misc]
    """All agents of a behavior as a `gymnasium.vector.VectorEnv`: a slot is a sub-environment.

    Engines start an agent's next episode by themselves, and send its first observation in the same message as
    the end of the last one. So the mode is `AutoresetMode.SAME_STEP`: final observations are in
    `infos["final_obs"]`. (With `NEXT_STEP`, the first action of every episode would be lost.)

    A step lasts until an agent requests a decision. An agent that requests none, because it has another
    decision period or its next episode has not started, has the reward 0, its previous observation, and False
    in `infos["asks"]`; its action is ignored. No reward is lost: the engine reports it with the agent's next
    step. Learners may leave such rows out.

    `infos` contains, each with a mask under `_` and its name: `asks`; `agent_id`, the engine's ids of agents,
    -1 for an empty slot; `group_id`; `group_reward`; and if there are branches `action_mask`,
    int8 [n, sizes of all branches], 1 for allowed actions.
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
        flatten_actions: bool = False,
        allow_multiple_obs: bool = False,
        add_group_reward: bool = False,
        action_space_seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Reset the engine and read its behavior.

        Args:
            env: An engine with a single behavior; its teams must have the same observations and actions, and
                are concatenated.
            num_envs: The number of slots; by default that of the first decision requests. Give it if more
                agents appear later.
            uint8_visual: See `UnityToGymWrapper`.
            flatten_branched: See there.
            flatten_actions: See there.
            allow_multiple_obs: See there.
            add_group_reward: Add the group's reward to the agents' own.
            action_space_seed: Seeds the action spaces' `sample`.
            render_mode: None, or `rgb_array` if agents observe an image.

        Raises:
            UnityGymException: There are several behaviors, teams with different specifications, more agents
                than slots, no observations or no actions, or no image to render.
        """
        self._stepper = EngineStepper(env)
        self._batches = batches_of_one_behavior(self._stepper)
        self._add_group_reward = add_group_reward
        spec = self._common_spec()
        self.num_envs = self._reserve(num_envs)
        self._observations = gym_observations(spec.observation_specs, uint8_visual, allow_multiple_obs)
        self._actions = ActionConverter(spec.action_spec, flatten_branched)
        self._flat = flat_converter(spec.action_spec, flatten_branched) if flatten_actions else None
        self.single_observation_space = self._observations.space
        self.single_action_space = self._actions.space if self._flat is None else self._flat.space
        self.observation_space = batch_space(self._observations.space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        if action_space_seed is not None:
            self.single_action_space.seed(action_space_seed)
            self.action_space.seed(action_space_seed)
        self.render_mode = render_mode
        self._frames = check_render_mode(render_mode, env, spec)
        self._was_reset = False

    @property
    def names(self) -> list[str]:
        """The engine's full behavior name of each slot."""
        return [batch.name for batch in self._batches for _ in range(len(batch))]

    @property
    def observation_keys(self) -> list[str]:
        """Names of the parts of a Tuple of observations: `visual_0`, ..., `set_0`, ..., `vector`."""
        return self._observations.keys

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The side channels by class name; empty unless this package launched the engine."""
        return self._stepper.side_channel

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Restart all episodes.

        Args:
            seed: Seeds the engine, which is restarted for it if this package launched it.
            options: `parameters`: a dict of values for the engine's environment parameters.

        Returns:
            The observations and the infos; zeros for agents that do not request a decision.

        Raises:
            UnityGymException: The environment is closed, there are more agents than slots, or `reset_mask`
                selects single slots, which an engine cannot reset.
        """
        if options and "reset_mask" in options:
            raise UnityGymException(
                "reset_mask selects some slots, but an engine can only restart all episodes together."
            )
        super().reset(seed=seed)
        self._stepper.reset(seed, options)
        self._check_size()
        self._was_reset = True
        return self._observations.convert(self._obs()), self.infos()

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Send the agents' actions and step the engine.

        Args:
            actions: In the action space: one per slot, with n in front of every shape.

        Returns:
            Observations, rewards, terminations, truncations [n], infos.

        Raises:
            UnityGymException: The environment is closed or has not been reset, an action is not in its space,
                or there are more agents than slots.
        """
        _ = self._stepper.env  # closed?
        if not self._was_reset:
            raise must_reset("You are calling step() before the first episode.")
        self._stepper.step(self._split(self._convert(actions)), self._stepper.any_asks)
        self._check_size()
        infos = self.infos()
        add_final_infos(infos, self._batches, self._observations)
        rewards = concatenate([batch.reward for batch in self._batches]).astype(np.float64)
        if self._add_group_reward:
            rewards += infos["group_reward"]
        terminated = concatenate([batch.terminated for batch in self._batches])
        truncated = concatenate([batch.truncated for batch in self._batches])
        return self._observations.convert(self._obs()), rewards, terminated, truncated, infos

    def infos(self) -> dict[str, Any]:
        """What `reset` and `step` say of the agents as they are now, without that of ended episodes."""
        return make_infos(self._batches, self._actions)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """The current frame of each slot, [height, width, 3]; None without a render mode."""
        if self._frames is None:
            return None
        slots = [(batch, slot) for batch in self._batches for slot in range(len(batch))]
        return tuple(self._frames.render(self._stepper.env, batch, slot) for batch, slot in slots)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the engine."""
        self._stepper.close()

    def _common_spec(self) -> Any:
        """The specification that all teams share."""
        first, *others = [batch.spec for batch in self._batches]
        for batch, spec in zip(self._batches[1:], others):
            shapes = [[sensor.shape for sensor in each.observation_specs] for each in (first, spec)]
            if shapes[0] != shapes[1] or first.action_spec != spec.action_spec:
                raise UnityGymException(
                    f"The teams {self._batches[0].name} and {batch.name} have different observations or "
                    "actions, and so no common space. UnityParallelEnv and UnityAECEnv accept them."
                )
        return first

    def _reserve(self, num_envs: int | None) -> int:
        found = sum(map(len, self._batches))
        if num_envs is not None and num_envs > found:
            if len(self._batches) > 1:
                raise UnityGymException(
                    f"num_envs is {num_envs}, but {found} agents of several teams were found; leave it out."
                )
            self._batches[0].reserve(num_envs)
        self.num_envs = num_envs or found
        self._check_size()
        return self.num_envs

    def _check_size(self) -> None:
        if len(self._stepper.batches) == len(self._batches) and sum(map(len, self._batches)) <= self.num_envs:
            return
        batches = batches_of_one_behavior(self._stepper)
        found = sum(map(len, batches))
        if found > self.num_envs or any(map(len, batches[len(self._batches) :])):
            raise UnityGymException(
                f"The environment has {self.num_envs} slots, but {found} agents of "
                f"{', '.join(batch.name for batch in batches)} existed at once. Set num_envs={found}."
            )

    def _convert(self, actions: Any) -> ActionTuple:
        if self._flat is None:
            return self._actions.convert(actions, self.num_envs)
        return self._flat.convert(actions, self.num_envs, forbidden_of(self._batches))

    def _split(self, action: ActionTuple) -> dict[str, ActionTuple]:
        ends = np.cumsum([len(batch) for batch in self._batches])[:-1]
        parts = zip(np.split(action.continuous, ends), np.split(action.discrete, ends))
        return {batch.name: ActionTuple(*part) for batch, part in zip(self._batches, parts)}

    def _obs(self) -> list[NDArray[Any]]:
        sensors = zip(*(batch.obs for batch in self._batches))
        return [concatenate(arrays) for arrays in sensors]


def concatenate(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate the teams' [n, ...] arrays."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def forbidden_of(batches: Sequence[SlottedAgents]) -> list[NDArray[np.bool_]]:
    """[n, size] per branch, True for actions that are not allowed now; empty without branches."""
    return [concatenate(branch) for branch in zip(*(batch.forbidden for batch in batches))]


def make_infos(batches: Sequence[SlottedAgents], actions: ActionConverter) -> dict[str, Any]:
    """The infos: an array [n] per name, and its mask under `_` and the name."""
    infos: dict[str, Any] = {
        "asks": concatenate([batch.asks for batch in batches]).copy(),
        "agent_id": concatenate([batch.slots.holders for batch in batches]).copy(),
        "group_id": np.maximum(concatenate([batch.slots.groups for batch in batches]), 0),
        "group_reward": concatenate([batch.group_reward for batch in batches]).copy(),
    }
    if forbidden := forbidden_of(batches):
        infos["action_mask"] = actions.masks(forbidden)
    slots = len(infos["asks"])
    return infos | {f"_{key}": np.ones(slots, np.bool_) for key in infos}


def add_final_infos(
    infos: dict[str, Any], batches: Sequence[SlottedAgents], observations: ObservationConverter
) -> None:
    """Add `final_obs` and `final_info` of episodes that have ended."""
    slots = sum(map(len, batches))
    last = np.full(slots, None, object)
    over = np.zeros(slots, np.bool_)
    agents = np.full(slots, VACANT, np.int64)
    first = 0
    for batch in batches:
        for ended in batch.ended:
            values = observations.convert(ended.obs)
            for row, slot in enumerate(ended.slots + first):
                last[slot] = observations.row(values, row)
            over[ended.slots + first] = True
            agents[ended.slots + first] = ended.agent_id
        first += len(batch)
    if over.any():
        final = {"agent_id": agents, "_agent_id": over.copy()}
        infos.update(final_obs=last, _final_obs=over.copy(), final_info=final, _final_info=over)
