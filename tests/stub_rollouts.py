"""Rollouts for tests of trainers, in which often only the lengths of trajectories matter."""

import numpy as np
import pytest
from goldendata import array
from lanista.agent_processor.trajectory import AgentKey
from rollouts import make_rollout

BUILD_ROLLOUT = "lanista.trainers.trainer.trainer.build_rollout"
"""What the trainers call with trajectories; replaced where they are stubs."""


class Queue:
    """Hands over everything at once."""

    def __init__(self, items):
        self.items = items

    def drain(self):
        items, self.items = self.items, []
        return items


class StubTrajectory:
    def __init__(self, length, agent=None, done=False):
        self.length, self.agent, self.done = length, agent, done

    def __len__(self):
        return self.length


def feed(trainer, *items):
    """Advance with trajectories of these lengths, or with such items; whether there was anything to do."""
    trainer.queues = [Queue([StubTrajectory(item) if isinstance(item, int) else item for item in items])]
    return trainer.advance()


def rollout_of(lengths, obs=None, continuous=1, **columns):
    """A Rollout of trajectories of these lengths; observations and actions are random unless given."""
    random, n = np.random.default_rng(sum(lengths)), sum(lengths)
    obs = obs or [random.normal(size=(n, 3)).astype(np.float32)]
    actions = random.uniform(-0.9, 0.9, (n, continuous)).astype(np.float32)
    return make_rollout(lengths, obs, continuous=actions, **columns)


def process_golden(trainer, trajectory, **more):
    """Let a trainer process a trajectory of the reference data; the number of its steps."""
    for name, provider in trainer.providers.items():
        provider.given = array(trajectory["signal_rewards_unscaled"][name])
    env, _, agent = trajectory["agent_id"].removeprefix("agent_").partition("-")
    rollout = rollout_of(
        [len(trajectory["rewards"])],
        reward=array(trajectory["rewards"]),
        done_reached=[trajectory["done_reached"]],
        interrupted_at_end=[trajectory["interrupted"]],
        agents=[AgentKey(int(env), int(agent))],
        **more,
    )
    trainer.stats.calls.clear()
    trainer.schedule.count(rollout.steps)
    trainer.stats.set_stat("Step", float(trainer.step))
    trainer.process(rollout)
    return rollout.steps


def check_golden(trainer, expected):
    """Steps, statistics and episodes' rewards are those of the reference."""
    close = {"rtol": 1e-4, "atol": 1e-5}
    calls, wanted = trainer.stats.calls, expected["stats_reported"]
    assert trainer.step == expected["step"]
    assert [[c[0], c[2]] for c in calls] == [[c[0], c[2]] for c in wanted]
    np.testing.assert_allclose([c[1] for c in calls], [c[1] for c in wanted], **close)
    if not trainer.episodes.history.by_groups:  # the reference compares by agents' returns in any case
        np.testing.assert_allclose(list(trainer.episodes.history.last), expected["reward_buffer"], **close)
    for key, sums in expected["collected_rewards"].items():
        column = trainer.episodes.names.index(key)
        # Agents whose episode has ended have no entry here (pitfalls B1: the reference's grow for ever).
        living = {k: v for k, v in sums.items() if isinstance(v, float)}
        found = {str(agent): total[column] for agent, total in trainer.episodes.sums.items()}
        assert found == pytest.approx(living, rel=1e-4, abs=1e-5)
