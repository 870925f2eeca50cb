"""How the agents of the PushBlock scenes move, and where they start."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.dungeon_escape import DungeonEscape
from lanista.envs.scenes.worlds.push_block import CoopPush, PushBlockMotion, RandomPlacement

NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT, LEFT, RIGHT = range(7)
EVERYBODY = np.arange(2)


def commanded(action, heading):
    """(push x, push z, degrees turned) of an agent after one physics step."""
    motion_control = PushBlockMotion(1, 2, speed=3.0)
    motion_control.heading[:] = heading
    motion_control.command(EVERYBODY, np.full(2, action, np.int32))
    motion_control.turn()
    return [*motion_control.push[:, 0, 1], np.degrees(motion_control.heading[0, 1] - heading)]


@pytest.mark.parametrize(
    ("action", "heading", "expected"),
    [
        (NOTHING, 0, (0, 0, 0)),
        (FORWARD, 0, (0, 3, 0)),
        (BACK, 0, (0, -3, 0)),
        (TURN_RIGHT, 0, (0, 0, 4)),
        (TURN_LEFT, 0, (0, 0, -4)),
        (LEFT, 0, (-2.25, 0, 0)),
        (RIGHT, 0, (2.25, 0, 0)),
        (FORWARD, np.pi / 2, (3, 0, 0)),
        (RIGHT, np.pi / 2, (0, -2.25, 0)),
    ],
)
def test_what_each_action_does_in_the_agents_axes(action, heading, expected):
    np.testing.assert_allclose(commanded(action, heading), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("world", "masses", "drags"),
    [
        (CoopPush(areas=1), [10] * 5 + [100] * 2 + [150] * 2, [4] * 3 + [0.5] * 6),
        (DungeonEscape(areas=1), [10] * 3 + [np.inf] * 4, [4] * 3 + [0] * 4),
    ],
)
def test_at_full_size_what_pushes_is_as_strong_and_what_resists_as_heavy_as_in_unity(world, masses, drags):
    bodies = world.bodies
    np.testing.assert_allclose(bodies._inverse_mass.reshape(3, -1)[:2], [1 / np.array(masses)] * 2)
    np.testing.assert_allclose((1 - bodies._keep[:2, 0]) / 0.02, [drags] * 2, atol=1e-12)
    assert bodies._grip == pytest.approx(0.6 * 1.5 * 9.81 * 0.02)
    world.motion_control.command(np.arange(3), np.full(3, FORWARD))
    np.testing.assert_allclose(np.hypot(*world.motion_control.push), 3.0)


def test_a_stopped_agent_does_nothing_until_the_next_action():
    motion_control = PushBlockMotion(2, 1, speed=1.0)
    motion_control.command(EVERYBODY, np.int32([FORWARD, TURN_LEFT]))
    motion_control.stop(np.array([1]))
    motion_control.turn()
    np.testing.assert_array_equal(motion_control.push[1, :, 0], [1, 0])
    np.testing.assert_array_equal(motion_control.heading, 0)


def test_places_are_within_the_square_and_free_of_what_was_placed_before():
    taken = np.array([[0.0, 0.0, 1.0]]).T
    placement = RandomPlacement(half=6.25, room=1.5, sizes=[0.5, 0.5, 1.0], taken=taken, highest=[9, 9, 3])
    places = placement.sample(np.random.default_rng(0), 200)
    assert places.shape == (2, 200, 3)
    assert np.abs(places).max() <= 6.25
    assert np.abs(places).max() > 6.0
    assert 2.8 < places[1, ..., 2].max() <= 3 < places[1, ..., 0].max()
    for later, known in ((0, ()), (1, (0,)), (2, (0, 1))):
        assert np.abs(places[..., later]).max(axis=0).min() >= 1.0 + 1.5
        for earlier in known:
            gap = np.abs(places[..., later] - places[..., earlier]).max(axis=0)
            assert gap.min() >= 1.5 + placement.sizes[earlier]


def test_where_there_is_no_room_the_freest_place_is_taken():
    placement = RandomPlacement(half=1.0, room=5.0, sizes=[0.5] * 2, taken=np.zeros((3, 0)), highest=[9] * 2)
    places = placement.sample(np.random.default_rng(0), 100)
    apart = np.abs(places[..., 0] - places[..., 1]).max(axis=0)
    assert np.abs(places).max() <= 1.0
    assert apart.min() > 0.8
