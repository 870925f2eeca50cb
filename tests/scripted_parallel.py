"""Parallel environments of PettingZoo that play a script, and what steps them."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from lanista.envs.base import Decision
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment

WALKER = "walker?team=0"
"""The behavior of their agents."""
NOTHING = ((), (), ())
"""A step in which no agent joins or leaves."""


class Script:
    """Plays a script: for every step, who comes, who is terminated, who is truncated. Observes the time."""

    def __init__(self, *script, first=("walker_0",), spaces=None):
        self.script, self.first, self.spaces = script, first, spaces or {}
        self.actions, self.seeds, self.closed, self.episodes = [], [], False, 0

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.episodes += 1
        self.time, self.agents = 0, list(self.first)
        return {agent: self.see(agent) for agent in self.agents}, {}

    def step(self, actions):
        self.actions.append(actions)
        came, terminated, truncated = self.script[self.time]
        self.time += 1
        assert set(actions) == set(self.agents)
        seen = [*self.agents, *came]
        self.agents = [agent for agent in seen if agent not in (*terminated, *truncated)]
        return (
            {agent: self.see(agent) for agent in seen},
            dict.fromkeys(actions, self.time + 0.5),
            {agent: agent in terminated for agent in seen},
            {agent: agent in truncated for agent in seen},
            {},
        )

    def see(self, agent):
        return np.array([self.time, int(agent[-1])])

    def observation_space(self, agent):
        return self.spaces.get(agent, (Box(-np.inf, np.inf, (2,), np.float32),))[0]

    def action_space(self, agent):
        return self.spaces.get(agent, (None, Discrete(3)))[1]

    def close(self):
        self.closed = True


class WithState(Script):
    def state(self):
        return np.array([[self.time, self.episodes]])


def environment(*args, areas=1, seed=None, state_observation=False, kind=Script, **kwargs):
    made = []

    def make():
        made.append(kind(*args, **kwargs))
        return made[-1]

    env = PettingZooEnvironment(make, seed, areas, state_observation)
    env.reset()
    return env, made


def zeros(manager, name, decisions):
    """A decision of zeros for who asks."""
    action = manager.behavior_specs[name].action_spec.empty_action(len(decisions))
    nothing = np.zeros(len(decisions), np.float32)
    return Decision(decisions.agent_id, action, action, nothing[:, None], nothing)
