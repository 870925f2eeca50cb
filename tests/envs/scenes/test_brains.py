"""Brains that Unity ships work in the scenes that bear their names."""

from pathlib import Path

import numpy as np
import pytest
from lanista.envs.scenes.in_process import WorldEnvironment
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds import ball3d, basic
from lanista.envs.scenes.worlds.hallway import scene as hallway
from lanista.envs.scenes.worlds.sorter import scene as sorter

onnxruntime = pytest.importorskip("onnxruntime", reason="brains need onnxruntime")

ONNX = Path(__file__).parents[2] / "real" / "onnx"


@pytest.fixture(autouse=True)
def _same_chance():
    """Brains draw actions by the runtime's own random numbers, other ones in every process."""
    onnxruntime.set_seed(1)


def brain(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(ONNX / name), options)


@pytest.mark.parametrize("output", ["deterministic_continuous_actions", "continuous_actions"])
def test_unitys_3dball_brain_balances(output):
    """100.0 in the real player; an episode of it is 1000 decisions."""
    session = brain("3DBall.onnx")
    world = ball3d.Ball3D(24)
    batch = world.reset(np.random.default_rng(1), Parameters())[ball3d.BEHAVIOR]
    none = np.zeros((24, 0), np.int32)
    returns, finished = np.zeros(24), []
    for _ in range(1000):
        (actions,) = session.run([output], {"obs_0": batch.obs[0][~batch.done]})
        batch = world.step({ball3d.BEHAVIOR: (actions, none)})[ball3d.BEHAVIOR]
        for agent, reward in zip(batch.agent_id[batch.done], batch.reward[batch.done]):
            finished.append(returns[agent] + reward)
            returns[agent] = 0
        returns += np.where(np.isin(np.arange(24), batch.agent_id[batch.done]), 0, batch.reward[~batch.done])
    assert len(finished) >= 24
    assert np.mean(finished) > (99.9 if output.startswith("deterministic") else 90)


@pytest.mark.parametrize("output", ["deterministic_discrete_actions", "discrete_actions"])
def test_unitys_basic_brain_finds_the_large_goal(output):
    session = brain("Basic.onnx")
    world = basic.Basic()
    batch = world.reset(np.random.default_rng(0), Parameters())[basic.BEHAVIOR]
    none = np.zeros((1, 0), np.float32)
    earned, ends = 0.0, 0
    while ends < 20:
        inputs = {"obs_0": batch.obs[0][~batch.done], "action_masks": np.ones((1, 3), np.float32)}
        (actions,) = session.run([output], inputs)
        batch = world.step({basic.BEHAVIOR: (none, actions.astype(np.int32))})[basic.BEHAVIOR]
        earned += float(batch.reward[0])
        ends += int(batch.done.sum())
    assert earned / ends > 0.9


@pytest.mark.parametrize("output", ["deterministic_discrete_actions", "discrete_actions"])
def test_unitys_sorter_brain_touches_the_tiles_in_order(output):
    """Of two tiles at most: it wins more than 99 of 100 episodes, random actions one of six."""
    session = brain("Sorter.onnx")
    count = 48
    world = sorter.Sorter(areas=count, tiles=2)
    batch = world.reset(np.random.default_rng(1), Parameters())[sorter.BEHAVIOR]
    none, masks = np.zeros((count, 0), np.float32), np.ones((count, 9), np.float32)
    finished, won = 0, 0
    for _ in range(80):
        inputs = {f"obs_{i}": obs[~batch.done] for i, obs in enumerate(batch.obs)}
        (actions,) = session.run([output], {**inputs, "action_masks": masks})
        batch = world.step({sorter.BEHAVIOR: (none, actions.astype(np.int32))})[sorter.BEHAVIOR]
        finished += int(batch.done.sum())
        won += int((batch.reward[batch.done] > 0).sum())
    assert finished >= 2 * count
    assert won > 0.97 * finished


class HallwayScore:
    """How Unity's Hallway brain, which has sampled actions only, chooses its goals."""

    def __init__(self, remembers=True, episodes=300, seed=1):
        # Loads onnxruntime, without which this module is skipped.
        from lanista.trainers.policies.onnx.runtime import Brain

        count = 16
        brain = Brain(ONNX / "Hallway.onnx")
        env = WorldEnvironment(hallway.Hallway(areas=count), seed)
        env.reset()
        running, self.returns, self.right = np.zeros(count), [], 0
        while len(self.returns) < episodes:
            decisions, terminals = env.get_steps(hallway.BEHAVIOR)
            self.returns += (running[terminals.agent_id] + terminals.reward).tolist()
            self.right += int((terminals.reward > 0.5).sum())
            running[terminals.agent_id] = 0
            running[decisions.agent_id] += decisions.reward
            brain.reset_agents(terminals.agent_id if remembers else decisions.agent_id)
            env.set_actions(hallway.BEHAVIOR, brain.act(decisions))
            env.step()


def test_unitys_hallway_brain_remembers_the_symbol():
    """Of 100 goals it chooses more than 99 right; its mean return is 0.94, random actions have -1."""
    score = HallwayScore()
    assert score.right > 0.97 * len(score.returns)
    assert np.mean(score.returns) > 0.9


def test_unitys_hallway_brain_without_its_memory_chooses_at_random():
    score = HallwayScore(remembers=False)
    assert 0.4 < score.right / len(score.returns) < 0.6
