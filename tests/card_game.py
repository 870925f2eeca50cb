"""A game of two turns: the higher card wins."""

import numpy as np
from gymnasium.spaces import Box, Discrete


class Cards:
    """PettingZoo's interface of a game of turns, without its package; equal cards are a draw."""

    def __init__(self):
        self.possible_agents = ["player_0", "player_1"]

    def reset(self, seed=None):
        self.agents = list(self.possible_agents)
        self.cards = {}
        self.rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self.agents.remove(agent)
            self.rewards = dict.fromkeys(self.agents, 0)
            self.agent_selection = self.agents[0] if self.agents else agent
            return
        self.cards[agent] = int(action)
        self.agent_selection = self.agents[1]
        if len(self.cards) == 2:
            mine, theirs = (self.cards[agent] for agent in self.agents)
            result = int(np.sign(mine - theirs))
            self.rewards = dict(zip(self.agents, (result, -result)))
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]

    def observe(self, agent):
        return np.ones(1, np.float32)

    def observation_space(self, agent):
        return Box(0, 1, (1,))

    def action_space(self, agent):
        return Discrete(4)

    def close(self):
        """Nothing is open."""

    def agent_iter(self):
        """By this name environments of turns are known."""


def env():
    """As PettingZoo's modules have it."""
    return Cards()
