"""The rules of Sorter."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.sorter import BEHAVIOR, Sorter
from mlagents_envs.base_env import DimensionProperty
from scene_play import ScenePlay

STILL, FORWARD, RIGHT, TURN_LEFT, TURN_RIGHT = (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2)
STEP = -1 / 5000


class Play(ScenePlay):
    scene = Sorter

    def lay(self, area, numbers, places):
        """These tiles, at these places, instead of those that were drawn."""
        world = self.world
        world.numbers[area], world.places[area] = 0, -1
        world.numbers[area, : len(numbers)] = numbers
        world.places[area, : len(places)] = places
        world._count[area], world.visited[area] = len(numbers), 0

    def put_before(self, area, place):
        """The agent a little before a place for a tile, looking at it, at rest."""
        angle = self.world.dynamics.tile_angle[place]
        self.world.heading[area] = angle
        self.world.dynamics.velocity[:, area] = 0
        self.world.dynamics.position[:, area] = 18.9 * np.array([np.sin(angle), np.cos(angle)])


def test_an_episode_has_one_to_all_tiles_with_numbers_and_places_of_their_own():
    world = Play(areas=4000).world
    np.testing.assert_allclose(np.degrees(np.diff(world.dynamics.tile_angle)), 18)
    counts = (world.numbers > 0).sum(axis=1)
    assert abs(np.bincount(counts, minlength=21)[1:] - 200).max() < 80
    for numbers, places, count in zip(world.numbers[:200], world.places, counts):
        assert sorted(set(numbers[:count])) == list(numbers[:count])
        assert len(set(places[:count])) == count and (places[count:] == -1).all()
    assert world.numbers.max() == 20
    assert set(world.places.ravel()) == {-1, *range(20)}


def test_the_trainer_sets_how_many_tiles_there_are_from_the_next_episode_on():
    play = Play(areas=400, parameters={"num_tiles": 2})
    assert set((play.world.numbers > 0).sum(axis=1)) == {1, 2}
    play.parameters.set("num_tiles", 1.9)
    play.act()
    assert (play.world.numbers > 0).sum(axis=1).max() == 2
    play.world._age[:] = 4999
    play.act()
    assert set((play.world.numbers > 0).sum(axis=1)) == {1}


@pytest.mark.parametrize("number", [0, 21])
def test_more_or_fewer_tiles_than_there_can_be_are_refused(number):
    with pytest.raises(ValueError, match=f"num_tiles is {number} to {number}; it must be from 1 to 20"):
        Play(parameters={"num_tiles": number})


def test_a_row_has_number_offset_and_visit_of_a_tile_and_the_twentieth_loses_its_mark():
    play = Play()
    play.lay(0, [3, 20], [5, 0])
    play.world.dynamics.position[:, 0] = 2, -4
    play.world.visited[0] = 1
    rows = play.world._sense(play.world._view(np.array([0])), np.zeros((1, 8), np.float32))[0][0]
    third = np.zeros(23)
    third[3], third[20:] = 1, [(20.5 - 2) / 20, 4 / 20, 1]
    np.testing.assert_allclose(rows[0], third, atol=1e-6)
    np.testing.assert_allclose(rows[1], [*[0] * 20, -2 / 20, 24.5 / 20, 0], atol=1e-6)
    assert not rows[2:].any()


def test_an_agent_observes_its_place_twice_and_its_velocity_in_its_own_frame():
    play = Play()
    assert not play.batch.obs[2][0, :4].any()
    play.world.heading[:] = np.pi / 2
    batch = play.act(FORWARD)
    body, place = batch.obs[1][0], batch.obs[2][0]
    np.testing.assert_allclose(body[:9], [0, 0, 0, 0, 0, 0, 1, 0, 0], atol=1e-6)
    assert body[9] > 5
    np.testing.assert_allclose(place[:4], [0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(place[5:], [0, 1, 0], atol=1e-6)
    assert place[4] == pytest.approx(play.world.dynamics.position[0, 0] / 20)


def test_actions_move_and_turn_for_five_physics_steps_and_sideways_replaces_forward():
    play = Play(areas=5)
    play.world.heading[:] = 0
    play.act([FORWARD, RIGHT, (1, 2, 0), TURN_LEFT, TURN_RIGHT])
    x, z = play.world.dynamics.position
    assert z[0] > 0.3 and abs(x[0]) < 1e-9
    assert x[1] > 0.3 and abs(z[1]) < 1e-9
    assert x[2] == pytest.approx(-x[1]) and abs(z[2]) < 1e-9
    np.testing.assert_allclose(np.degrees(play.world.heading), [0, 0, 0, -20, 20])


def test_drag_and_friction_set_the_greatest_speed():
    play = Play(places=3, tiles=1, radius=1000.0)
    for _ in range(40):
        play.act(FORWARD)
    grip = 0.6 * 9.81 * 2.5 * 0.02
    # What is added in a step is lost to drag (4 a second) and friction.
    speed = np.hypot(*play.world.dynamics.velocity[:, 0])
    assert speed == pytest.approx((0.92 * 2 - grip) / 0.08, rel=1e-3)
    play.parameters.set("gravity", 9.81)
    for _ in range(40):
        play.act(FORWARD)
    faster = np.hypot(*play.world.dynamics.velocity[:, 0])
    assert faster == pytest.approx((0.92 * 2 - 0.4 * grip) / 0.08, rel=1e-3)


def test_the_next_tile_pays_once_and_the_last_ends_the_episode():
    play = Play()
    play.lay(0, [4, 9], [5, 10])
    play.put_before(0, 5)
    assert play.act(FORWARD).reward[0] == pytest.approx(1 + 5 * STEP)
    assert play.batch.obs[0][0, :2, 22].tolist() == [1, 0]
    assert play.act(FORWARD).reward[0] == pytest.approx(5 * STEP)
    play.put_before(0, 10)
    batch = play.act(FORWARD)
    np.testing.assert_array_equal(batch.done, [True, False])
    assert not batch.interrupted.any()
    assert batch.obs[0][0, :2, 22].tolist() == [1, 1]
    assert 1 + 5 * STEP <= batch.reward[0] <= 1 + STEP
    # What is left of the decision's five steps belongs to the next episode, in which nothing is done yet.
    assert batch.reward.sum() == pytest.approx(1 + 5 * STEP)
    assert not play.world.dynamics.position.any()
    np.testing.assert_array_equal(batch.agent_id, [0, 0])


def test_a_wrong_tile_costs_and_ends_the_episode_and_the_heading_stays():
    play = Play(areas=2)
    for area in (0, 1):
        play.lay(area, [4, 9], [5, 10])
    play.put_before(1, 10)
    batch = play.act(FORWARD)
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    assert -1 + 5 * STEP <= batch.reward[0] <= -1 + STEP
    assert play.world.heading[1] == pytest.approx(play.world.dynamics.tile_angle[10])


def test_the_wall_holds_where_no_tile_stands():
    play = Play()
    play.lay(0, [4], [10])
    play.world.heading[:] = 0.05
    for _ in range(50):
        assert not play.act(FORWARD).done.any()
    assert 19 < np.hypot(*play.world.dynamics.position[:, 0]) <= 19.5


def test_a_setting_with_fewer_numbers_has_fewer_and_shorter_rows():
    play = Play(areas=200, numbers=4, tiles=3)
    assert play.world.specs()[BEHAVIOR].observation_specs[0].shape == (4, 7)
    assert play.batch.obs[0].shape == (200, 4, 7)
    assert set(play.world.numbers.ravel()) == {0, 1, 2, 3, 4}
    assert set((play.world.numbers > 0).sum(axis=1)) == {1, 2, 3}


def test_flat_tiles_are_the_same_numbers_as_one_vector():
    play, flat = Play(areas=3, seed=4), Play(areas=3, seed=4, senses="flat")
    (spec,) = flat.world.specs().values()
    assert spec.observation_specs[0].shape == (460,)
    assert spec.observation_specs[0].dimension_property == (DimensionProperty.NONE,)
    for _ in range(5):
        rows, vector = play.act(FORWARD).obs, flat.act(FORWARD).obs
        np.testing.assert_array_equal(rows[0].reshape(3, -1), vector[0])
        np.testing.assert_array_equal(rows[1], vector[1])
