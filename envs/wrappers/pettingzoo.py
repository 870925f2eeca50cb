"""An engine's agents as PettingZoo knows agents: by names, gone when their episode has ended.

One behaviour's agents as PettingZoo knows agents: their spaces, and who has come and gone.

What PettingZoo's two kinds of environments show alike: who there is, and their spaces.

What PettingZoo is told of an environment besides its agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionTuple, BaseEnv
from numpy.typing import NDArray

from ..python.action_spaces import ACTION_MASK
from ..side_channels import SideChannel
from .agents import Crew
from .errors import UnityGymException
from .spaces import Actions, sensor_view
from .stepper import Play

OBSERVATION = "observation"


class Company:
    """A crew whose agents are gone when their episode has ended, until all begin anew."""

    def __init__(self, crew: Crew) -> None:
        """Nobody lives yet.

        Raises:
            UnityGymException: There is nothing to see or to do.
        """
        self.crew = crew
        self.actions = Actions(crew.spec.action_spec)
        self.names: list[str] = []
        self.lives: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[slots] The agent's episode goes on."""
        self.gone: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[slots] The agent's episode has ended; whoever holds its slot now is not shown."""
        self._view = sensor_view(crew.spec.observation_specs)
        spec = crew.spec.action_spec
        self._masked = bool(spec.discrete_branches) and not spec.continuous_size
        """The mask is a part of the observation. One beside continuous actions is in the info: it has None
        for these, which no space holds."""

    def begin(self) -> None:
        """All episodes begin anew."""
        self.lives[:] = self.gone[:] = False

    def introduce(self) -> list[str]:
        """The names of slots that are new."""
        new = [f"{self.crew.name}?agent_id={slot}" for slot in range(len(self.names), len(self.crew))]
        self.names += new
        nobody = np.zeros(len(new), np.bool_)
        self.lives, self.gone = np.append(self.lives, nobody), np.append(self.gone, nobody)
        return new

    def admit(self) -> None:
        """Let those live whose slots have found a holder."""
        self.lives = self.lives | (self.crew.asks & ~self.gone)

    def ended(self) -> NDArray[np.bool_]:
        """[slots] The agents who lived until this step."""
        return self.lives & (self.crew.terminated | self.crew.truncated)

    def bury(self) -> None:
        """Those who lived until this step are gone."""
        over = self.ended()
        self.lives, self.gone = self.lives & ~over, self.gone | over

    def anything_new(self) -> bool:
        """Whether there is a newcomer, or something to tell of the living or to ask them."""
        if len(self.names) < len(self.crew):
            return True
        return bool((self.ended() | (self.crew.asks & ~self.gone)).any())

    def nothing(self) -> ActionTuple:
        """Zeros for every slot."""
        action: ActionTuple = self.crew.spec.action_spec.empty_action(len(self.crew))
        return action

    def observation_space(self) -> Any:
        """What an agent sees: a Box, or a Dict of the sensors by their names where there are several.

        With branches, but no continuous actions, a Dict of that as `observation`, and `action_mask`: int8,
        1 where an action is allowed, [size], or a Tuple of such where there are several branches.
        """
        if not self._masked:
            return self._view.space
        sizes = self.crew.spec.action_spec.discrete_branches
        masks = [spaces.Box(0, 1, (size,), np.int8) for size in sizes]
        mask = masks[0] if len(masks) == 1 else spaces.Tuple(masks)
        return spaces.Dict({OBSERVATION: self._view.space, ACTION_MASK: mask})

    def observations(self, slots: NDArray[np.intp]) -> list[Any]:
        """What the agents of some slots see, or saw at the end of their episode."""
        obs = self._with_ends()
        told = self._view.of([array[slots] for array in obs])
        rows = [self._view.row(told, row) for row in range(len(slots))]
        if not self._masked:
            return rows
        return [{OBSERVATION: row, ACTION_MASK: self._mask(slot)} for row, slot in zip(rows, slots)]

    def info(self, slot: int) -> dict[str, Any]:
        """What else is known of a slot's agent."""
        crew = self.crew
        over = bool(self.ended()[slot])
        told: dict[str, Any] = {
            "behavior_name": crew.name,
            "agent_id": self._last_holder(slot) if over else int(crew.slots.holders[slot]),
            "group_id": max(0, int(crew.slots.groups[slot])),
            "group_reward": float(crew.group_reward[slot]),
            "asks": bool(crew.asks[slot]) and not over,
        }
        if over:
            told["interrupted"] = bool(crew.truncated[slot])
        elif crew.forbidden and not self._masked:
            told["action_mask"] = self._mask(slot)
        return told

    def _last_holder(self, slot: int) -> int:
        """The id of the agent whose episode has ended in this step."""
        ids = [ended.agent_id[ended.slots == slot] for ended in self.crew.ended]
        return int(np.concatenate(ids)[0])

    def _with_ends(self) -> list[NDArray[Any]]:
        """[n, *shape] per sensor, with what was seen at the end instead of what the next episode shows."""
        over = self.ended()
        obs = self.crew.obs
        if not over.any():
            return obs
        obs = [array.copy() for array in obs]
        for ended in self.crew.ended:
            shown = over[ended.slots]
            for array, last in zip(obs, ended.obs):
                array[ended.slots[shown]] = last[shown]
        return obs

    def _mask(self, slot: int) -> Any:
        """All is allowed where an episode has ended."""
        over = self.ended()[slot]
        closed = [np.zeros_like(mask[slot]) if over else mask[slot] for mask in self.crew.forbidden]
        return self.actions.mask(closed)


@dataclass
class Told:
    """What a step told of some agents, by their names."""

    observations: dict[str, Any] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    terminations: dict[str, bool] = field(default_factory=dict)
    truncations: dict[str, bool] = field(default_factory=dict)
    infos: dict[str, dict[str, Any]] = field(default_factory=dict)


class Cast:
    """The agents of a BaseEnv by names such as `3DBall?team=0?agent_id=3`: behaviour, and slot.

    An agent whose episode has ended is gone until the next reset, as PettingZoo has it. The engine begins its
    next episode at once all the same; its actions there are zeros, and what it gets is not told. When all are
    gone, a reset begins all episodes anew.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None, add_group_reward: bool = False) -> None:
        """Reset the engine and look at what it shows.

        Args:
            env: Any engine.
            seed: Of the action spaces' `sample`.
            add_group_reward: The group's reward is added to the agents' own.

        Raises:
            UnityGymException: Some behaviour has nothing to see or to do.
        """
        self._play = Play(env)
        self._seed = seed
        self._add_group_reward = add_group_reward
        self._companies: dict[str, Company] = {}
        self._place: dict[str, tuple[Company, int]] = {}
        self.observation_spaces: dict[str, Any] = {}
        self.action_spaces: dict[str, Any] = {}
        self._chosen: dict[str, ActionTuple] = {}
        self._admit()

    @property
    def env(self) -> BaseEnv:
        """The engine. Raises UnityGymException when it has been closed."""
        return self._play.env

    @property
    def possible(self) -> list[str]:
        """All agents that were there at once so far; those whose episode has not begun too."""
        return list(self._place)

    @property
    def living(self) -> list[str]:
        """Those whose episode goes on."""
        return [name for name, (company, slot) in self._place.items() if company.lives[slot]]

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The engine's side channels by the names of their classes, where this package has launched it."""
        return self._play.side_channel

    def asks(self, agent: str) -> bool:
        """Whether a living agent waits for an action."""
        company, slot = self._place[agent]
        return company.lives[slot] and bool(company.crew.asks[slot])

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> Told:
        """Let the engine begin all episodes anew. As `Play.reset`."""
        self._play.reset(seed, options)
        for company in self._companies.values():
            company.begin()
        self._chosen.clear()
        self._admit()
        return self._tell()

    def choose(self, agent: str, action: Any) -> None:
        """Say what an agent does in the next step; that of one who is not asked is not used.

        Raises:
            UnityGymException: There is no such agent, it does not live, or the action is not of its space.
        """
        if agent not in self._place:
            near = get_close_matches(str(agent), self._place, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"the agents are {', '.join(self.living)}."
            raise UnityGymException(f"There is no agent {agent!r}; {known}")
        company, slot = self._place[agent]
        if not company.lives[slot]:
            raise UnityGymException(
                f"The agent {agent!r} got an action, but its episode has ended: give none, or call reset()."
            )
        name = company.crew.name
        if name not in self._chosen:
            self._chosen[name] = company.nothing()
        told = company.actions.one(action, whose=f" of the agent {agent!r}")
        if told.continuous.shape[1]:
            self._chosen[name].continuous[slot] = told.continuous[0]
        if told.discrete.shape[1]:
            self._chosen[name].discrete[slot] = told.discrete[0]

    def step(self) -> Told:
        """Let the engine go on until a living agent is asked, or an episode has ended.

        Returns:
            What it told of those who lived when the step began, and of those who came.

        Raises:
            UnityGymException: It has been closed.
        """
        actions = {name: self._chosen.get(name) or each.nothing() for name, each in self._companies.items()}
        self._chosen = {}
        self._play.step(actions, self._anything_new)
        self._admit()
        told = self._tell()
        for company in self._companies.values():
            company.bury()
        return told

    def close(self) -> None:
        """End the engine; a second time does nothing."""
        self._play.close()

    def _anything_new(self) -> bool:
        """Whether there is something to tell, or to ask."""
        if len(self._companies) < len(self._play.crews):
            return True
        return any(company.anything_new() for company in self._companies.values())

    def _admit(self) -> None:
        """Let newcomers live."""
        for name, crew in self._play.crews.items():
            if name not in self._companies:
                self._companies[name] = Company(crew)
            company = self._companies[name]
            for agent in company.introduce():
                self._introduce(agent, company)
            company.admit()

    def _introduce(self, agent: str, company: Company) -> None:
        self._place[agent] = (company, company.names.index(agent))
        self.observation_spaces[agent] = company.observation_space()
        self.action_spaces[agent] = Actions(company.crew.spec.action_spec).space
        if self._seed is not None:
            self.action_spaces[agent].seed(self._seed + len(self._place) - 1)

    def _tell(self) -> Told:
        """What is known of those who live, or did until this step, after the engine's last message."""
        told = Told()
        for company in self._companies.values():
            slots = np.flatnonzero(company.lives)
            if not len(slots):
                continue
            crew = company.crew
            rewards = crew.reward + crew.group_reward if self._add_group_reward else crew.reward
            ended = company.ended()
            for slot, observation in zip(slots, company.observations(slots)):
                agent = company.names[slot]
                told.observations[agent] = observation
                told.rewards[agent] = float(rewards[slot])
                told.terminations[agent] = bool(ended[slot] and crew.terminated[slot])
                told.truncations[agent] = bool(ended[slot] and crew.truncated[slot])
                told.infos[agent] = company.info(int(slot))
        return told


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


METADATA: dict[str, Any] = {"render_modes": []}


def title(env: BaseEnv) -> str:
    """A name for logs: the engine's file or scene where it is known."""
    return str(getattr(env, "name", None) or type(env).__name__)
