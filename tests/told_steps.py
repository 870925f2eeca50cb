"""Decision requests and ends of episodes, written as short tuples."""

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps


def _columns(agents):
    """Agents as (id, reward) or (id, reward, group, group reward)."""
    whole = [(*agent, *(0, 0.0)[len(agent) - 2 :]) for agent in agents]
    ids, rewards, groups, earned = zip(*whole) if whole else ((), (), (), ())
    obs = [np.zeros((len(whole), 1), np.float32)]
    numbers = np.array(rewards, np.float32), np.array(ids, np.int32)
    return obs, *numbers, np.array(groups, np.int32), np.array(earned, np.float32)


def asking(*agents):
    """These agents request a decision."""
    obs, reward, ids, groups, earned = _columns(agents)
    return DecisionSteps(obs, reward, ids, None, groups, earned)


def ending(*agents, interrupted=False):
    """The episodes of these agents end."""
    obs, reward, ids, groups, earned = _columns(agents)
    return TerminalSteps(obs, reward, np.full(len(ids), interrupted), ids, groups, earned)
