"""Observations and actions of agents of Gymnasium environments, by their spaces."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium_games import GAME, environment, moment, number
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.errors import UnsupportedSpaceError
from lanista.envs.python.warned import without_warnings
from mlagents_envs.base_env import ActionTuple, DimensionProperty

SHIFTS = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE


def leaves():
    """Spaces without parts; boxes have distinct bounds and no images among them."""
    sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)
    shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
    return st.one_of(
        st.builds(Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
        sizes.map(MultiDiscrete),
        sizes.map(lambda n: MultiDiscrete(n, start=list(range(-1, len(n) - 1)))),
        st.just(MultiDiscrete(np.array([[2, 3], [1, 4]]))),
        st.builds(MultiBinary, st.one_of(st.integers(1, 3), shapes.filter(bool))),
        st.builds(lambda low, size, shape: Box(low, low + size, shape, np.float32),
                  st.integers(-5, 5), st.integers(1, 9), shapes),
        st.just(Box(0, 9, (2,), np.int64)),
    )  # fmt: skip


def nested():
    names = st.text("abc", min_size=1, max_size=3)
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.dictionaries(names, inner, min_size=1, max_size=3).map(Dict),
            st.lists(inner, min_size=1, max_size=3).map(Tuple),
        ),
        max_leaves=5,
    )


@given(nested(), st.integers(0, 2**20))
def test_observations_are_the_flattened_sample(space, seed):
    space.seed(seed)
    first, second = space.sample(), space.sample()
    env, _ = environment([moment(first), moment(second)], seen=space, copies=2)
    for value in (first, second):
        env.step()
        decisions, _ = env.get_steps(GAME)
        shapes = [(2, *spec.shape) for spec in env.behavior_specs[GAME].observation_specs]
        assert [obs.shape for obs in decisions.obs] == shapes
        for copy in range(2):
            seen = np.concatenate([obs[copy] for obs in decisions.obs])
            np.testing.assert_allclose(seen, spaces.flatten(space, value), rtol=1e-6)


def as_decided(space, value):
    """The values by which a policy decides on this action: continuous, discrete."""
    if isinstance(space, Dict | Tuple):
        keys = space.spaces.keys() if isinstance(space, Dict) else range(len(space.spaces))
        parts = [as_decided(space.spaces[key], value[key]) for key in keys]
        return tuple([number for part in parts for number in part[kind]] for kind in (0, 1))
    if isinstance(space, Box):
        return np.ravel((value - space.low) / (space.high - space.low) * 2 - 1).tolist(), []
    return [], np.ravel(value - getattr(space, "start", 0)).tolist()


def require_equal(space, found, expected):
    assert space.contains(found)
    if isinstance(space, Dict | Tuple):
        keys = space.spaces.keys() if isinstance(space, Dict) else range(len(space.spaces))
        for key in keys:
            require_equal(space.spaces[key], found[key], expected[key])
    else:
        np.testing.assert_allclose(found, expected, atol=1e-5)


@given(nested(), st.integers(0, 2**20))
def test_actions_are_the_values_that_were_decided(space, seed):
    space.seed(seed)
    samples = [space.sample() for _ in range(3)]
    env, games = environment([moment(number(0))] * 3, acts=space, copies=3)
    env.reset()
    decided = [as_decided(space, sample) for sample in samples]
    continuous = np.array([row for row, _ in decided], np.float32).reshape(3, -1)
    discrete = np.array([row for _, row in decided], np.int32).reshape(3, -1)
    env.set_actions(GAME, ActionTuple(continuous, discrete))
    env.step()
    for game, sample in zip(games, samples):
        require_equal(space, game.actions[-1], sample)
    env.set_actions(GAME, env.behavior_specs[GAME].action_spec.random_action(3))
    env.step()
    assert all(space.contains(game.actions[-1]) for game in games), "no branch has too many actions"


@pytest.mark.parametrize(
    ("shape", "channels", "pixel"),
    [
        ((5, 6, 3), (3, 5, 6), lambda image, c, y, x: image[y, x, c]),
        ((5, 6), (1, 5, 6), lambda image, c, y, x: image[y, x]),
        ((4, 5, 6), (4, 5, 6), lambda image, c, y, x: image[c, y, x]),
        ((2, 5, 6, 3), (6, 5, 6), lambda image, c, y, x: image[c // 3, y, x, c % 3]),
    ],
    ids=["colored", "gray", "gray frames", "colored frames"],
)
@pytest.mark.parametrize("images", ["uint8", "float32"])
def test_images_come_channels_first(shape, channels, pixel, images):
    space = Box(0, 255, shape, np.uint8)
    image = space.sample()
    env, _ = environment([moment(image)], seen=space, images=images)
    env.reset()
    (seen,) = env.get_steps(GAME)[0].obs
    assert seen.shape == (1, *channels) and seen.dtype == images
    (spec,) = env.behavior_specs[GAME].observation_specs
    assert spec.dimension_property == (DimensionProperty.NONE, SHIFTS, SHIFTS)
    expected = [[[pixel(image, c, y, x) for x in range(6)] for y in range(5)] for c in range(channels[0])]
    np.testing.assert_allclose(seen[0], np.array(expected) / (255 if images == "float32" else 1), rtol=1e-6)


def test_bytes_that_are_not_an_image_are_a_vector():
    for space in (Box(0, 255, (9,), np.uint8), Box(0, 3, (5, 6), np.uint8), Box(0, 255, (5, 6), np.int16)):
        env, _ = environment([moment(space.sample())], seen=space)
        assert len(env.behavior_specs[GAME].observation_specs[0].shape) == 1


@pytest.mark.parametrize("what", ["seen", "acts"])
@pytest.mark.parametrize(
    ("space", "path"),
    [(Text(3), ""), (Dict(note=Text(3)), "note"), (Tuple([Discrete(2), Dict(note=Text(3))]), "1.note")],
)
def test_a_space_that_cannot_be_used_is_named_by_its_path(what, space, path):
    with pytest.raises(
        UnsupportedSpaceError, match=rf"ScriptedGymEnv.*{path}: the .* space Text.*cannot .*wrapper"
    ):
        environment([moment(number(0))], **{what: space})


def test_actions_without_bounds_are_named_once(caplog):
    acts = Dict(aim=Box(-1, 1, (2,)), push=Box(np.float32([0, -np.inf]), np.float32([2, np.inf])))
    with without_warnings():  # as when a run looks whether the environment can be made at all
        environment([moment(number(0))], acts=acts)
    assert not caplog.text
    env, games = environment([moment(number(0))] * 2, acts=acts, copies=3)
    environment([moment(number(0))], acts=acts)
    assert caplog.text.count("values of action.push lack a bound") == 1
    env.reset()
    env.set_actions(GAME, ActionTuple(np.float32([[1, -1, 0, 0.25]] * 3)))
    env.step()
    np.testing.assert_allclose(games[2].actions[-1]["push"], [1, 0.25])
