"""A turn-based game after a script, with PettingZoo's interface and without its package."""

from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


@dataclass
class Move:
    """What becomes of one turn."""

    rewards: list
    """Of each seat, if it lives."""
    ends: dict
    """Seats whose episodes end, with whether they are truncated."""
    following: int
    """Who is next, counted among those who live then."""


class ScriptedGame:
    """Plays the moves in turn, over and over; the last one of an episode ends all."""

    def __init__(self, episodes, seats=3, first=0):
        self.episodes, self.first = episodes, first
        self.possible_agents = [f"player_{k}" for k in range(seats)]
        self.number = -1
        self.acted = []
        """(episode, turn, seat, action) of every turn."""
        self.seeds = []
        self.closed = False

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.number += 1
        self.moves = self.episodes[self.number % len(self.episodes)]
        self.time = 0
        self.agents = list(self.possible_agents)
        self._clear()
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[self.first]

    def _clear(self):
        self.rewards = dict.fromkeys(self.agents, 0)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            assert action is None
            self.agents.remove(agent)
            for told in (self.terminations, self.truncations, self.infos):
                del told[agent]
            self._clear()
            self._next()
            return
        seat = self.possible_agents.index(agent)
        self.acted.append((self.number, self.time, seat, int(action)))
        move = self.moves[self.time]
        self.time += 1
        self._clear()
        for other in self.agents:
            self.rewards[other] = move.rewards[self.possible_agents.index(other)]
        last = self.time == len(self.moves)
        for other in self.agents:
            ends = move.ends.get(self.possible_agents.index(other), False if last else None)
            if ends is not None:
                (self.truncations if ends else self.terminations)[other] = True
        self.following = move.following
        self._next()

    def _next(self):
        """Those who have ended come first."""
        ended = [a for a in self.agents if self.terminations[a] or self.truncations[a]]
        if ended:
            self.agent_selection = ended[0]
        elif self.agents:
            self.agent_selection = self.agents[self.following % len(self.agents)]

    def observe(self, agent):
        seen = np.array([self.time, self.possible_agents.index(agent)], np.float32)
        mask = np.array([1, self.time % 2, 1], np.int8)
        return {"observation": seen, "action_mask": mask}

    def observation_space(self, agent):
        return Dict({"observation": Box(-np.inf, np.inf, (2,)), "action_mask": Box(0, 1, (3,), np.int8)})

    def action_space(self, agent):
        return Discrete(3)

    def render(self):
        return np.full((2, 2, 3), self.time, np.uint8)

    def close(self):
        self.closed = True

    def agent_iter(self):
        """By this name environments of turns are known."""
