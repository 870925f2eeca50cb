"""What scripts may rely on where ML-Agents' low-level API lets them down."""

import atexit
import logging
import os

import numpy as np
import pytest
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityException


@pytest.fixture
def teams():
    env = UnityEnvironment("scene:dungeon-escape?areas=1", seed=1)
    env.reset()
    yield env
    env.close()


def test_groups_are_arrays_with_agents_and_without(teams):
    (name,) = teams.behavior_specs
    for steps in teams.get_steps(name):
        assert isinstance(steps.group_id, np.ndarray) and steps.group_id.shape == (len(steps),)
        assert isinstance(steps.group_reward, np.ndarray)
        assert (steps.group_id > 0).sum() == len(steps)


def test_launching_and_stepping_leaves_logging_as_it_is():
    """A handler more with every environment would print every line so many times."""
    loggers = [
        logging.getLogger(name)
        for name in (None, "lanista", "lanista.envs.unity.environment", "mlagents_envs")
    ]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    for _ in range(2):
        env = UnityEnvironment("scene:basic")
        env.reset()
        env.close()
    assert [(logger.handlers, logger.level) for logger in loggers] == before


def test_what_was_handed_out_is_not_written_to_by_later_steps():
    env = UnityEnvironment("scene:ball3d?areas=3", seed=1)
    env.reset()
    (name,) = env.behavior_specs
    kept, copies = [], []
    for _ in range(5):
        decisions, _ = env.get_steps(name)
        kept.append(decisions.obs[0])
        copies.append(decisions.obs[0].copy())
        env.set_actions(name, ActionTuple(np.ones((len(decisions), 2), np.float32)))
        env.step()
    env.close()
    np.testing.assert_array_equal(kept, copies)
    assert (copies[0] != copies[-1]).any()


@pytest.mark.posix("forks")
@pytest.mark.parametrize("use", ["step", "reset", "close"])
def test_a_forked_process_is_refused_and_its_end_leaves_the_engine_to_the_parent(use):
    """The child would take the answer for which the parent waits, and end the engine as it ends."""
    env = UnityEnvironment("scene:basic", seed=1)
    env.reset()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            getattr(env, use)()
        except UnityException as error:
            os.write(writer, str(error).encode())
        finally:
            atexit._run_exitfuncs()
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as told:
        text = told.read()
    os.waitpid(child, 0)
    if use == "close":
        assert not text
    else:
        assert f"was opened by process {os.getpid()}, and process {child}, which was forked" in text
        assert "Open the environment in the process that steps it" in text
    env.step()
    env.close()
