"""Environments of Gymnasium whose steps cost what is wanted."""

import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Burning(gymnasium.Env):
    """Each step computes and waits for so many milliseconds, and then shows what does not matter."""

    def __init__(self, compute=0.0, wait=0.0, picture=False):
        self.compute, self.wait = compute / 1000, wait / 1000
        self.observation_space = Box(0, 255, (4, 84, 84), np.uint8) if picture else Box(-1, 1, (4,))
        self.action_space = Discrete(2)
        self.seen = self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self.seen, {}

    def step(self, action):
        end = time.thread_time() + self.compute  # of this thread's own, however busy the machine is
        while time.thread_time() < end:
            pass
        if self.wait:
            time.sleep(self.wait)
        self.time += 1
        return self.seen, 1.0, False, self.time == 500, {}
