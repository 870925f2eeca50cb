"""Brains that Unity ships work in the scenes that bear their names."""

from pathlib import Path

import numpy as np
import pytest
from lanista.envs.scenes.in_process import WorldEnvironment
from lanista.envs.scenes.worlds import ball3d, basic, hallway, sorter
from scene_play import play_of

onnxruntime = pytest.importorskip("onnxruntime", reason="brains need onnxruntime")

ONNX = Path(__file__).parents[2] / "real" / "onnx"


@pytest.fixture(autouse=True)
def _fixed_seed():
    """Brains sample actions with the runtime's own random numbers, which differ in every process."""
    onnxruntime.set_seed(1)


def brain(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(ONNX / name), options)


@pytest.mark.parametrize("output", ["deterministic_continuous_actions", "continuous_actions"])
def test_unitys_3dball_brain_balances(output):
    """100.0 in the real player; an episode of it is 1000 decisions."""
    session, play = brain("3DBall.onnx"), play_of(ball3d.Ball3D)(areas=24, seed=1)
    returns, finished = np.zeros(24), []
    for _ in range(1000):
        (actions,) = session.run([output], {"obs_0": play.batch.obs[0][~play.batch.done]})
        batch = play.act(continuous=actions)
        for agent, reward in zip(batch.agent_id[batch.done], batch.reward[batch.done]):
            finished.append(returns[agent] + reward)
            returns[agent] = 0
        returns += np.where(np.isin(np.arange(24), batch.agent_id[batch.done]), 0, batch.reward[~batch.done])
    assert len(finished) >= 24
    assert np.mean(finished) > (99.9 if output.startswith("deterministic") else 90)


@pytest.mark.parametrize("output", ["deterministic_discrete_actions", "discrete_actions"])
def test_unitys_basic_brain_finds_the_large_goal(output):
    session, play = brain("Basic.onnx"), play_of(basic.Basic)()
    earned, ends = 0.0, 0
    while ends < 20:
        seen = play.batch.obs[0][~play.batch.done]
        (actions,) = session.run([output], {"obs_0": seen, "action_masks": np.ones((1, 3), np.float32)})
        batch = play.act(actions)
        earned += float(batch.reward[0])
        ends += int(batch.done.sum())
    assert earned / ends > 0.9


@pytest.mark.parametrize("output", ["deterministic_discrete_actions", "discrete_actions"])
def test_unitys_sorter_brain_touches_the_tiles_in_order(output):
    """Of two tiles at most: it wins more than 99 of 100 episodes, random actions one of six."""
    session, count = brain("Sorter.onnx"), 48
    play, masks = play_of(sorter.Sorter)(areas=count, seed=1, tiles=2), np.ones((count, 9), np.float32)
    finished, won = 0, 0
    for _ in range(80):
        inputs = {f"obs_{i}": obs[~play.batch.done] for i, obs in enumerate(play.batch.obs)}
        (actions,) = session.run([output], {**inputs, "action_masks": masks})
        batch = play.act(actions)
        finished += int(batch.done.sum())
        won += int((batch.reward[batch.done] > 0).sum())
    assert finished >= 2 * count and won > 0.97 * finished


@pytest.mark.slow
@pytest.mark.parametrize(("remembers", "low", "high"), [(True, 0.97, 1.0), (False, 0.4, 0.6)])
def test_unitys_hallway_brain_chooses_the_right_goal_by_its_memory(remembers, low, high):
    """With it more than 99 of 100; its mean return is 0.94, that of random actions -1."""
    # Loads onnxruntime, without which this module is skipped.
    from lanista.trainers.policies.onnx.runtime import Brain

    count, name = 16, hallway.BEHAVIOR
    brain = Brain(ONNX / "Hallway.onnx")
    env = WorldEnvironment(hallway.Hallway(areas=count), 1)
    env.reset()
    running, returns, right = np.zeros(count), [], 0
    while len(returns) < 300:
        decisions, terminals = env.get_steps(name)
        returns += (running[terminals.agent_id] + terminals.reward).tolist()
        right += int((terminals.reward > 0.5).sum())
        running[terminals.agent_id] = 0
        running[decisions.agent_id] += decisions.reward
        brain.reset_agents(terminals.agent_id if remembers else decisions.agent_id)
        env.set_actions(name, brain.act(decisions))
        env.step()
    assert low < right / len(returns) <= high
    assert not remembers or np.mean(returns) > 0.9
