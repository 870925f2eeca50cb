"""Small Gymnasium environments whose every step is known."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from lanista.envs.python.gymnasium.environment import GymnasiumEnvironment

NUMBER = Box(-np.inf, np.inf, (1,), np.float32)
GAME = "Game?team=0"


class ScriptedGymEnv(gymnasium.Env):
    """Returns the observations of a script and records the actions; an episode lasts as long as its script.

    `script`: per episode, in a cycle, what reset and each step return: (observation, reward, terminated,
    truncated, info), of which reset returns the first and the last.
    """

    def __init__(self, observation_space, action_space, *script, render_mode=None):
        self.observation_space, self.action_space = observation_space, action_space
        self.script, self.episode, self.seeds, self.actions = script, -1, [], []
        self.render_mode, self.closed = render_mode, False

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.episode, self.time = (self.episode + 1) % len(self.script), 0
        first = self.script[self.episode][0]
        return first[0], first[4]

    def step(self, action):
        self.actions.append(action)
        self.time += 1
        return self.script[self.episode][self.time]

    def render(self):
        return np.full((4, 6, 3), self.time, np.uint8)

    def close(self):
        self.closed = True


def moment(observation, reward=0.0, *, terminated=False, truncated=False, info=None):
    return observation, reward, terminated, truncated, info or {}


class Cat(gymnasium.Env):
    """Counts steps, with a reward of 1 each; every third one costs a life, the last life the game."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, lives=3, emulator=False):
        self.all_lives = lives
        if emulator:
            self.ale = self

    def lives(self):
        return self.left

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.left = 0, self.all_lives
        return self.seen()

    def step(self, action):
        self.time += 1
        self.left -= self.time % 3 == 0
        observation, info = self.seen()
        return observation, 1.0, self.left == 0, False, info

    def seen(self):
        return np.float32([self.time]), {} if hasattr(self, "ale") else {"lives": self.left}


def number(value):
    return np.float32([value])


def environment(*script, seen=NUMBER, acts=None, **options):
    """One copy or several of a `ScriptedGymEnv`, and the games behind them."""
    games = []

    def make():
        games.append(ScriptedGymEnv(seen, acts or Discrete(2), *script))
        return games[-1]

    return GymnasiumEnvironment(make, "Game", **options), games


def episode(*observations, **end):
    """An episode of these observations, with rewards 1, 2, ..., that ends with the last one."""
    steps = [moment(observation, float(k)) for k, observation in enumerate(observations[:-1])]
    return [*steps, moment(observations[-1], float(len(observations) - 1), **end)]
