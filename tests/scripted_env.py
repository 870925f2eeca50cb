"""A BaseEnv that plays a test's script, message by message, and keeps the actions it is given."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from mlagents_envs.base_env import ActionSpec, BaseEnv, BehaviorSpec, DecisionSteps, TerminalSteps
from specs import sensor

NAME = "Ball?team=0"


@dataclass
class Asks:
    """An agent that waits for an action and sees `value`."""

    agent: int
    value: float = 0.0
    reward: float = 0.0
    group: int = 0
    group_reward: float = 0.0
    allowed: tuple[tuple[int, ...], ...] | None = None


@dataclass
class Ends:
    """An agent whose episode has ended."""

    agent: int
    value: float = 0.0
    reward: float = 0.0
    interrupted: bool = False
    group: int = 0
    group_reward: float = 0.0


def spec_of(*shapes: tuple[int, ...], continuous: int = 0, branches: tuple[int, ...] = ()) -> BehaviorSpec:
    return BehaviorSpec(
        [sensor(shape, f"sensor{shape}") for shape in shapes], ActionSpec(continuous, branches)
    )


BALL = spec_of((1,), continuous=2)
"""One number to see, two to decide."""


@dataclass
class ScriptedEnv(BaseEnv):
    """Its first message answers every reset; then each step gives the next, and the last one over and over.

    Messages are lists of one behavior's agents, or dicts of such lists.
    """

    script: list
    specs: dict[str, BehaviorSpec] = field(default_factory=lambda: {NAME: BALL})
    acted: list[dict[int, tuple]] = field(default_factory=list)
    """By step, the action of each agent that waited; None where none was set."""
    resets: int = 0
    closed: bool = False
    given: dict[str, tuple] = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)

    @property
    def behavior_specs(self):
        return self.specs

    def reset(self):
        self.resets += 1
        self.time = 0

    def step(self):
        acted = {}
        for name in self.specs:
            waiting = self.get_steps(name)[0].agent_id
            action = self.given.get(name)
            for row, agent in enumerate(waiting):
                rows = None
                if action is not None:
                    rows = (action.continuous[row].tolist(), action.discrete[row].tolist())
                acted[int(agent)] = rows
        self.acted.append(acted)
        self.given = {}
        self.time = min(self.time + 1, len(self.script) - 1)

    def get_steps(self, behavior_name):
        message = self.script[self.time]
        agents = message.get(behavior_name, []) if isinstance(message, dict) else message
        asks = [each for each in agents if isinstance(each, Asks)]
        ends = [each for each in agents if isinstance(each, Ends)]
        spec = self.specs[behavior_name]
        return (
            DecisionSteps(*_of(asks, spec), _masks(asks, spec), *_groups(asks)),
            TerminalSteps(*_ended(ends, spec), *_groups(ends)),
        )

    def set_actions(self, behavior_name, action):
        waiting = len(self.get_steps(behavior_name)[0])
        assert len(action.continuous) == len(action.discrete) == waiting
        self.given[behavior_name] = action

    def set_action_for_agent(self, behavior_name, agent_id, action):
        raise NotImplementedError

    def set_parameters(self, parameters):
        self.parameters.update(parameters)

    def close(self):
        assert not self.closed
        self.closed = True


def _of(agents, spec):
    obs = [
        np.array([np.full(each.shape, agent.value) for agent in agents], np.float32).reshape(-1, *each.shape)
        for each in spec.observation_specs
    ]
    rewards = np.array([agent.reward for agent in agents], np.float32)
    return obs, rewards, np.array([agent.agent for agent in agents], np.int32)


def _ended(agents, spec):
    obs, rewards, ids = _of(agents, spec)
    return obs, rewards, np.array([agent.interrupted for agent in agents], np.bool_), ids


def _groups(agents):
    groups = np.array([agent.group for agent in agents], np.int32)
    return groups, np.array([agent.group_reward for agent in agents], np.float32)


def _masks(agents, spec):
    if not spec.action_spec.discrete_branches:
        return None
    masks = []
    for branch, size in enumerate(spec.action_spec.discrete_branches):
        rows = [
            [agent.allowed is not None and k not in agent.allowed[branch] for k in range(size)]
            for agent in agents
        ]
        masks.append(np.array(rows, np.bool_).reshape(-1, size))
    return masks
