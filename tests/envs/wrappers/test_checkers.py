"""Gymnasium's and PettingZoo's own checkers, on the wrappers over live scene processes."""

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")
pytest.importorskip("pettingzoo")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.utils.passive_env_checker import check_obs  # noqa: E402
from lanista.envs.wrappers import make_aec, make_gym, make_parallel, make_vector  # noqa: E402
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test  # noqa: E402

pytestmark = pytest.mark.slow

ALONE = {
    "basic": {},
    "ball3d?areas=1": {},
    "grid?areas=1": {"uint8_visual": True, "allow_multiple_obs": True, "render_mode": "rgb_array"},
    "sorter?areas=1": {"allow_multiple_obs": True, "flatten_branched": True},
}
MANY = ["ball3d?areas=3", "grid?areas=2", "wall-jump?areas=3", "dungeon-escape?areas=1"]
"""Actions of both kinds; images; masks, agents that change their behavior; groups that lose members."""
SEEDED = ["ball3d?areas=3", "wall-jump?areas=3"]


@pytest.fixture(autouse=True)
def _ignore_advice():
    """The checkers advise against infinite bounds, names without a number at their end, and the like."""
    with warnings.catch_warnings():
        for advice in ("infinity", "does not have a spec|not having a spec", "format <descriptor>_<number>"):
            warnings.filterwarnings("ignore", f".*({advice}).*")
        yield


@pytest.mark.parametrize("scene", ALONE)
def test_gymnasiums_check_env_passes(scene, recwarn):
    env = make_gym(f"scene:{scene}", **ALONE[scene])
    check_env(env)
    env.close()
    advice = ("infinity", "spec")
    said = [
        str(w.message) for w in recwarn if issubclass(w.category, UserWarning)
    ]  # not of other tests' files
    assert [message for message in said if not any(part in message for part in advice)] == []


@pytest.mark.parametrize("scene", MANY)
def test_pettingzoos_parallel_tests_pass(scene):
    env = make_parallel(f"scene:{scene}")
    parallel_api_test(env, num_cycles=150)
    env.close()


@pytest.mark.parametrize("scene", [*MANY, "basic", "food?areas=1"])
def test_pettingzoos_aec_tests_pass(scene):
    env = make_aec(f"scene:{scene}")
    api_test(env, num_cycles=100)
    env.close()


@pytest.mark.parametrize("scene", SEEDED)
def test_pettingzoos_seed_tests_pass(scene):
    parallel_seed_test(lambda: make_parallel(f"scene:{scene}", seed=5), num_cycles=30)
    seed_test(lambda: make_aec(f"scene:{scene}", seed=5), num_cycles=30)


@pytest.mark.parametrize(
    ("scene", "options"),
    [
        ("ball3d?areas=5", {}),
        ("basic", {}),
        ("grid?areas=3", {"uint8_visual": True, "allow_multiple_obs": True}),
        ("soccer-twos?areas=1", {"flatten_branched": True}),
        ("dungeon-escape?areas=2", {"add_group_reward": True}),
        ("food?areas=1", {}),
    ],
)
def test_a_vector_env_keeps_gymnasiums_rules(scene, options):
    """Gymnasium has no checker for these: what its documentation says, and the same again from a seed."""
    env = make_vector(f"scene:{scene}", **options)
    runs = [_play(env, 120) for _ in range(2)]
    for first, second in zip(*runs):
        np.testing.assert_equal(first, second)
    env.close()


def _play(env, steps):
    env.action_space.seed(7)
    seen, infos = env.reset(seed=11)
    results, returns, counted = [seen], 0.0, 0
    for _ in range(steps):
        check_obs(seen, env.observation_space, "step")
        assert seen in env.observation_space
        assert all(f"_{key}" in infos for key in infos if not key.startswith("_"))
        seen, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        assert [array.shape for array in (rewards, terminated, truncated)] == [(env.num_envs,)] * 3
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, np.bool_, np.bool_)
        ended = terminated | truncated
        assert not (terminated & truncated).any()
        assert ended.any() == ("final_obs" in infos)
        if ended.any():
            counted += ended.sum()
            np.testing.assert_array_equal(infos["_final_obs"], ended)
            assert all(infos["final_obs"][k] in env.single_observation_space for k in np.flatnonzero(ended))
        returns += rewards.sum()
        results.append((seen, rewards, ended))
    return [*results, returns, counted]


def test_gymnasium_make_accepts_it():
    unity = "lanista.envs.wrappers.ids:lanista/Unity-v0"
    env = gymnasium.make(unity, file_name="scene:ball3d?areas=1", seed=2)
    assert env.spec.id == "lanista/Unity-v0"
    assert env.reset(seed=2)[0] in env.observation_space
    env.close()
    many = gymnasium.make_vec(
        unity, num_envs=3, vectorization_mode="vector_entry_point", file_name="scene:ball3d?areas=3"
    )
    assert many.reset()[0].shape == (3, 8)
    many.close()
