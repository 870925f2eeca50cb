"""A third-party BaseEnv: two agents that count, with inexact dtypes."""

import numpy as np
from mlagents_envs.base_env import ActionSpec, BaseEnv, BehaviorSpec, DecisionSteps, TerminalSteps
from specs import sensor

NAME = "Counter?team=0"
SPEC = BehaviorSpec([sensor((3,), "count")], ActionSpec(1, (2, 3)))


class Foreign(BaseEnv):
    """Both agents see the time three times over; every fourth step agent 0 ends and comes back as 10 more."""

    def __init__(self, seed=None):
        self.seed, self.time, self.given, self.first, self.closed = seed, -1, [], 0, False

    @property
    def behavior_specs(self):
        return {NAME: SPEC} if self.time >= 0 else {}

    def reset(self):
        self.time, self.first = 0, 0

    def step(self):
        self.time += 1
        self.first += 10 * self.ends

    @property
    def ends(self):
        return self.time > 0 and self.time % 4 == 0

    def set_actions(self, behavior_name, action):
        self.given.append((action.continuous.tolist(), action.discrete.tolist()))

    def set_action_for_agent(self, behavior_name, agent_id, action):
        raise NotImplementedError

    def get_steps(self, behavior_name):
        masks = [np.zeros((2, 2), bool), np.array([[False, True, False]] * 2)]
        seen = [[self.time] * 3]
        ended = np.full(int(self.ends), self.first - 10)
        return (
            DecisionSteps(
                [np.array(seen * 2)], [0.5, 1.5], np.array([self.first, 5]), masks, [0, 3], [0.0, 2.0]
            ),
            TerminalSteps(
                [np.array(seen * len(ended)).reshape(-1, 3)],
                np.ones(len(ended)),
                ended > -1,
                ended,
                ended * 0,
                ended * 0,
            ),
        )

    def close(self):
        self.closed = True
