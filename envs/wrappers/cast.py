"""An engine's agents as PettingZoo knows agents: by names, gone when their episode has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv

from ..side_channels import SideChannel
from .actions import Actions
from .company import Company
from .errors import UnityGymException
from .play import Play


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
