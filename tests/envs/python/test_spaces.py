"""Gymnasium's spaces as ML-Agents' specifications."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces
from lanista.envs.errors import UnsupportedSpaceError
from lanista.envs.python.action_spaces import action_decoder, forbidden_actions
from lanista.envs.python.spaces import sensors
from mlagents_envs.base_env import DimensionProperty

SHIFTS = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE


def read(space, value):
    found = {}
    for sensor in sensors(space):
        found[sensor.spec.name] = np.full(sensor.spec.shape, np.nan, np.float32)
        sensor.read(value, found[sensor.spec.name])
    return found


@pytest.mark.parametrize(("planes", "dtype"), [(2, np.int8), (3, np.uint8), (4, np.float32), (1, np.bool_)])
def test_boards_come_planes_first_on_request(planes, dtype):
    board = spaces.Box(0, 1, (6, 7, planes), dtype)
    space = spaces.Dict({"board": board, "row": spaces.Box(0, 1, (3,)), "action_mask": spaces.MultiBinary(7)})
    first, row = sensors(space, boards=True)
    assert first.spec.shape == (planes, 6, 7) and row.spec.shape == (3,)
    assert first.board and not row.board
    assert not any(sensor.board for sensor in sensors(spaces.Box(0, 255, (8, 9, 3), np.uint8), boards=True))
    assert first.spec.dimension_property == (DimensionProperty.NONE, SHIFTS, SHIFTS)
    value, into = board.sample(), np.zeros((planes, 6, 7), np.float32)
    first.read({"board": value}, into)
    np.testing.assert_array_equal(into, value.transpose(2, 0, 1))
    if planes == 2:
        assert sensors(space)[0].spec.shape == (84,)


def test_images_for_a_trainer_are_the_bytes_themselves():
    space = spaces.Dict({"camera": spaces.Box(0, 255, (4, 5, 3), np.uint8), "speed": spaces.Box(-1, 1, (2,))})
    camera, speed = sensors(space, images="uint8")
    assert (camera.dtype, speed.dtype) == (np.uint8, np.float32)
    image = space.sample()["camera"]
    into = np.zeros((3, 4, 5), np.uint8)
    camera.read({"camera": image}, into)
    np.testing.assert_array_equal(into, image.transpose(2, 0, 1))
    camera.read({"camera": image.astype(float)}, into)
    np.testing.assert_array_equal(into, image.transpose(2, 0, 1))
    with pytest.raises(ValueError, match="not uint8"):
        camera.read({"camera": image / 255 + 0.5}, into)


def test_parts_are_sensors_of_their_own():
    space = spaces.Dict(
        place=spaces.Box(-1, 1, (2,)),
        action_mask=spaces.MultiBinary(2),
        more=spaces.Tuple([spaces.Discrete(2), spaces.Dict(action_mask=spaces.Discrete(2))]),
    )
    value = {"place": [3, 4], "action_mask": None, "more": (1, {"action_mask": 0})}
    found = read(space, value)
    assert {name: list(array) for name, array in found.items()} == {
        "place": [3, 4],
        "more.0": [0, 1],
        "more.1.action_mask": [1, 0],
    }


@pytest.mark.parametrize(
    ("dtype", "bound", "stretched"),
    [
        (np.float32, np.finfo(np.float32).max, False),
        (np.float64, np.finfo(np.float64).max, False),
        (np.int64, np.iinfo(np.int64).max - 1, False),
        (np.float32, 3e38, True),
        (np.float64, 1.7e308, True),
        (np.int16, 32767, True),
    ],
)
@pytest.mark.filterwarnings("error")
def test_bounds_near_the_limits_of_the_dtype_do_not_count(dtype, bound, stretched):
    space = spaces.Box(-bound, bound, (3,), dtype)
    (acted,) = action_decoder(space).decode(np.float32([[-1, 0, 1]]), np.zeros((1, 0), np.int32))
    np.testing.assert_allclose(acted, np.array([-1, 0, 1]) * (float(bound) if stretched else 1))
    assert space.contains(acted)


def test_a_space_with_nothing_to_observe_is_refused():
    space = spaces.Dict(action_mask=spaces.MultiBinary(2))
    with pytest.raises(UnsupportedSpaceError, match="nothing to observe"):
        sensors(space)


def test_masks_are_inverted():
    np.testing.assert_array_equal(forbidden_actions(np.int8([1, 0]), (2,)), [False, True])
    mask = (np.int8([1, 0]), np.int8([0, 0, 1]))
    np.testing.assert_array_equal(forbidden_actions(mask, (2, 3)), [False, True, True, True, False])
    np.testing.assert_array_equal(forbidden_actions(list(mask), (2, 3)), forbidden_actions(mask, (2, 3)))
    np.testing.assert_array_equal(forbidden_actions([1, 0], (2,)), [False, True])
    with pytest.raises(ValueError, match=r"3 entries.*need 2"):
        forbidden_actions(np.ones(3), (2,))
    with pytest.raises(ValueError, match=r"3 entries.*need 5"):
        forbidden_actions([np.int8([1, 0]), np.int8([0])], (2, 3))


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (spaces.Discrete(10**9), "1,000,000,000 choices, each of which becomes a number, are too many"),
        (spaces.MultiDiscrete([2] * 40_000), "80,000 choices"),
        (
            spaces.MultiBinary(10**9),
            "a vector of 1,000,000,000 numbers is too long; expected at most 1,048,576",
        ),
        (spaces.Tuple([spaces.Discrete(2)] * 4097), "4,097 observations; expected at most 4,096"),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(65_537)}), "b: .* 65,537 choices"),
    ],
)
def test_a_space_that_would_take_the_memory_is_refused_by_a_sentence(space, reason):
    with pytest.raises(UnsupportedSpaceError, match=reason):
        sensors(space)


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (spaces.Discrete(10**9), "0 continuous actions and 1,000,000,000 choices; expected at most 65,536"),
        (spaces.MultiDiscrete([50] * 2000), "100,000 choices"),
        (spaces.MultiDiscrete([2] * 2049), "2,049 discrete actions; expected at most 2,048"),
        (spaces.MultiBinary(10**9), "1,000,000,000 discrete actions"),
        (spaces.Box(-1, 1, (70_000,)), "70,000 continuous"),
        (spaces.Tuple([spaces.Box(-1, 1, (40_000,)), spaces.Discrete(30_000)]), "40,000 .* 30,000 choices"),
    ],
)
def test_an_action_space_that_would_take_the_memory_is_refused_by_a_sentence(space, reason):
    with pytest.raises(UnsupportedSpaceError, match=reason):
        action_decoder(space)
