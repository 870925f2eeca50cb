"""Steps without agents, on every NumPy: that of mlagents-envs needs a name that NumPy 1.24 to 1.26 lack."""

import numpy as np
from lanista.envs.base import no_steps
from lanista.envs.scenes.in_process import make_in_process
from mlagents_envs.base_env import DecisionSteps, TerminalSteps


def test_nobody_is_described_as_by_mlagents_envs(monkeypatch):
    env = make_in_process("scene:sorter?areas=1", seed=1)
    env.reset()
    (spec,) = env.behavior_specs.values()
    monkeypatch.setattr(np, "bool", np.bool_, raising=False)
    for ours, theirs in zip(no_steps(spec), (DecisionSteps.empty(spec), TerminalSteps.empty(spec))):
        assert type(ours) is type(theirs) and len(ours) == 0
        for name, column in vars(theirs).items():
            for mine, other in zip(_arrays(getattr(ours, name)), _arrays(column), strict=True):
                assert (mine.dtype, mine.shape) == (other.dtype, other.shape), name


def _arrays(column):
    if isinstance(column, list):
        return column
    return [column] if isinstance(column, np.ndarray) else []


def test_a_scene_that_tells_of_nobody_needs_no_new_name_of_numpy(monkeypatch):
    env = make_in_process("scene:ball3d?areas=1", seed=1)
    env.reset()
    (name,) = env.behavior_specs
    monkeypatch.delattr(np, "bool", raising=False)
    env._take({})
    assert [len(steps) for steps in env.get_steps(name)] == [0, 0]
