"""Corridors whose length is an environment parameter, by every interface of environments in Python.

Every agent walks until its corridor's end; `seen` records what each episode was given, and agents observe it.
"""

import os
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
from foreign_env import SPEC, Foreign
from gymnasium.spaces import Box, Discrete
from mlagents_envs.base_env import DecisionSteps, TerminalSteps

SEEN = Box(-np.inf, np.inf, (2,), np.float32)


class Walk:
    """An episode of any interface: its parameters, and how far it has come."""

    def __init__(self):
        self.given, self.episodes, self.time = {}, [], 0

    def begin(self, seed, given):
        self.given, self.time = dict(given or {}), 0
        self.episodes.append((seed, self.given))
        if log := os.environ.get("CORRIDOR_LOG"):
            with Path(log).open("a") as file:
                print(self.given, file=file)
        return self.seen()

    def seen(self):
        return np.float32([self.time, self.given.get("length", 3.0)])

    def advance(self):
        self.time += 1
        return self.time >= round(self.given.get("length", 3.0))


class Corridor(gymnasium.Env):
    """Takes its parameters as options of reset."""

    environment_parameters: ClassVar = {"length": 3.0, "slope": 0.0}
    observation_space, action_space = SEEN, Discrete(2)

    def __init__(self):
        self.walk = Walk()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.walk.begin(seed, options), {}

    def step(self, action):
        ended = self.walk.advance()
        return self.walk.seen(), 1.0, ended, False, {}


class Told(Corridor):
    """Takes them by its method; a reset with options fails."""

    def set_environment_parameters(self, parameters):
        if parameters.get("slope", 0.0) < 0:
            raise ValueError("a slope of less than 0")
        self.told = parameters

    def reset(self, *, seed=None, options=None):
        assert options is None
        return super().reset(seed=seed, options=getattr(self, "told", None))


class Silent(Corridor):
    """Does not say that it reads them."""

    environment_parameters = property()


class Closed(Silent):
    """Has no options."""

    def reset(self, *, seed=None):
        return super().reset(seed=seed)


class Odd(Corridor):
    """Declares a number."""

    environment_parameters = 5


class Parallel:
    """Two agents at once."""

    environment_parameters = ("length", "slope")
    possible_agents: ClassVar = ["agent_0", "agent_1"]

    def __init__(self):
        self.walk, self.agents = Walk(), []

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return dict.fromkeys(self.agents, self.walk.begin(seed, options)), {}

    def step(self, actions):
        ended = self.walk.advance()
        acted, self.agents = self.agents, [] if ended else self.agents
        each = [self.walk.seen(), 1.0, ended, False, {}]
        return tuple(dict.fromkeys(acted, value) for value in each)

    def observation_space(self, agent):
        return SEEN

    def action_space(self, agent):
        return Discrete(2)

    def close(self):
        pass


class Turns(Parallel):
    """Two agents, one after the other."""

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.rewards, self.infos = (dict.fromkeys(self.agents, value) for value in (0.0, {}))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.agent_selection = self.agents[0]

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self.agents.remove(self.agent_selection)
        elif self.walk.advance():
            self.terminations = dict.fromkeys(self.agents, True)
        others = [agent for agent in self.agents if agent != self.agent_selection]
        self.agent_selection = others[0] if others else self.agent_selection

    def observe(self, agent):
        return self.walk.seen()

    def agent_iter(self):
        """By this name environments of turns are known."""


class Own(Foreign):
    """A BaseEnv; its agents see the length, and every fourth step one of them ends."""

    environment_parameters: ClassVar = {"length": 3.0, "slope": 0.0}

    def __init__(self):
        super().__init__()
        self.walk = Walk()

    def set_environment_parameters(self, parameters):
        self.walk.begin(None, parameters)

    def get_steps(self, behavior_name):
        decisions, terminals = super().get_steps(behavior_name)
        length = self.walk.given.get("length", 3.0)
        return tuple(_with_length(steps, length) for steps in (decisions, terminals))


def _with_length(steps: DecisionSteps | TerminalSteps, length: float):
    steps.obs = [np.full((len(steps), *SPEC.observation_specs[0].shape), length)]
    return steps


KINDS = {"gymnasium": Corridor, "by a method": Told, "parallel": Parallel, "in turns": Turns}
"""By interface, those with episodes of their own."""
