"""Engines as Stable-Baselines3 takes them, by the Python that LANISTA_SB3 names, or this one if it has it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PYTHON = os.environ.get("LANISTA_SB3") or sys.executable
pytestmark = pytest.mark.skipif(
    sys.executable == PYTHON and importlib.util.find_spec("stable_baselines3") is None,
    reason="needs stable-baselines3: LANISTA_SB3 names a Python that has it, and Lanista",
)
HEAD = """
import numpy as np
from lanista.envs.wrappers import UnityGymException, UnityVecEnv, UnityVectorEnv, make_gym, make_sb3
from scripted_env import BALL, NAME, Asks, Ends, ScriptedEnv, spec_of

def wrap(*script, spec=BALL, **options):
    return UnityVecEnv(UnityVectorEnv(ScriptedEnv(list(script), {NAME: spec}), **options))
"""


def run(code):
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [PYTHON, "-W", "ignore", "-c", HEAD + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_ends_are_reported_as_sb3_expects():
    run("""
env = wrap([Asks(0), Asks(1)], [Ends(0, 5, 1), Asks(2, 7), Ends(1, 6, 2, interrupted=True), Asks(3, 8)])
assert env.reset().tolist() == [[0], [0]]
seen, rewards, ends, infos = env.step(np.zeros((2, 2), np.float32))
assert seen.tolist() == [[7], [8]] and rewards.tolist() == [1, 2] and ends.all()
assert [info["terminal_observation"].tolist() for info in infos] == [[5], [6]]
assert [info["TimeLimit.truncated"] for info in infos] == [False, True]
assert [info["agent_id"] for info in infos] == [2, 3]
""")


def test_several_observations_are_a_dict_and_masks_are_available():
    run("""
spec = spec_of((2,), (3, 4, 5), branches=(3, 2))
first = [Asks(0, 1, allowed=((0,), (0, 1))), Asks(1, 1)]
env = wrap(first, [Ends(0), Asks(2), Asks(1)], spec=spec, allow_multiple_obs=True)
assert env.has_attr("action_masks"), "sb3-contrib asks before it resets"
seen = env.reset()
assert {key: array.shape for key, array in seen.items()} == {"visual_0": (2, 3, 4, 5), "vector": (2, 2)}
assert env.observation_space["vector"].shape == (2,)
assert env.env_method("action_masks")[0].tolist() == [True, False, False, True, True]
assert env.has_attr("action_masks") and not wrap([Asks(0)]).has_attr("action_masks")
*_, infos = env.step(np.zeros((2, 2), np.int64))
assert set(infos[0]["terminal_observation"]) == {"visual_0", "vector"}
""")


def test_hybrid_actions_are_refused_unless_they_are_flat():
    run("""
try:
    wrap([Asks(0)], spec=spec_of((1,), continuous=1, branches=(2,)))
except UnityGymException as error:
    assert "continuous and discrete actions at once" in str(error) and "flatten_actions" in str(error)
else:
    raise AssertionError("taken")
env = wrap([Asks(0), Asks(1)], spec=spec_of((1,), continuous=1, branches=(2,)), flatten_actions=True)
env.reset()
env.step(np.zeros((2, 3), np.float32))
""")


def test_sb3s_checker_passes_and_its_algorithms_learn():
    run("""
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import VecMonitor

env = make_gym("scene:ball3d?areas=1")
check_env(env)
env.close()
env = VecMonitor(make_sb3("scene:ball3d?areas=3"))
model = PPO("MlpPolicy", env, n_steps=16, batch_size=48, n_epochs=1, seed=3)
model.learn(96)
assert model.num_timesteps == 96
env.close()
""")
