"""The rules of SoccerTwos."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.soccer import BEHAVIORS, DECIDED, SoccerTwos
from lanista.envs.scenes.worlds.soccer_dynamics import BALL, BALL_RADIUS
from scene_play import ScenePlay

BLUE, PURPLE = BEHAVIORS
OWN_GOAL, OTHER_GOAL, WALL, OWN_TEAM, OTHER_TEAM = range(1, 6)
FAR = ((-9.0, 6.0), (-9.0, -6.0), (9.0, 6.0), (9.0, -6.0))
"""Where players are out of the way."""


class Play(ScenePlay):
    scene = SoccerTwos

    def act(self, blue=0, purple=0):
        moves = zip(BEHAVIORS, (blue, purple))
        return self.step({name: self.actions(name, action) for name, action in moves})

    def place(self, ball, players=FAR, area=0, headings=(90, 90, -90, -90), rolling=(0, 0)):
        game = self.world.dynamics
        game.put(np.array([area]), np.array([*players, ball], float).T[:, None])
        self.world.heading[area] = np.radians(headings)
        game.velocity[:, area, BALL] = rolling


def test_at_full_size_everything_is_where_and_as_fast_as_in_unity():
    play = Play(areas=400)
    world = play.world
    x = world.dynamics.position[0]
    for low, high, players in ((-10, 0, x[:, :2]), (0, 10, x[:, 2:BALL])):
        assert low <= players.min() < low + 0.2
        assert high - 0.2 < players.max() <= high
    assert 2.4 < np.abs(world.dynamics.position[:, :, BALL]).max() <= 2.5
    off = np.degrees(world.heading) - [90, 90, -90, -90]
    assert 9.5 < np.abs(off).max() <= 10
    # Fully ahead for long: (v + 2) (1 - 3 x 0.02) = v.
    play.place((0, 7), players=((-14, 0), (-9, -6), (14, 3), (9, -6)))
    for _ in range(8):
        play.act(blue=(1, 0, 0))
    speed = (1 - 0.94**40) * 2 * 0.94 / 0.06
    np.testing.assert_allclose(world.dynamics.velocity[0, 0, 0], speed, rtol=1e-6)


def test_agents_groups_and_teams_have_ids_of_their_own():
    batches = Play(areas=3).batches
    np.testing.assert_array_equal(batches[BLUE].agent_id, [0, 1, 4, 5, 8, 9])
    np.testing.assert_array_equal(batches[PURPLE].agent_id, [2, 3, 6, 7, 10, 11])
    np.testing.assert_array_equal(batches[BLUE].group_id, [1, 1, 3, 3, 5, 5])
    np.testing.assert_array_equal(batches[PURPLE].group_id, [2, 2, 4, 4, 6, 6])


@pytest.mark.parametrize(
    ("action", "way", "degrees"),
    [
        ((1, 0, 0), (1, 0), 0),
        ((2, 0, 0), (-1, 0), 0),
        ((0, 1, 0), (0, -0.3), 0),
        ((1, 2, 0), (0, 0.3), 0),  # a step to the side replaces the one forward
        ((0, 0, 1), (0, 0), -10),
        ((0, 0, 2), (0, 0), 10),
    ],
)
def test_actions_move_a_player_in_its_own_axes_and_turn_it(action, way, degrees):
    play = Play()
    play.place((0, 0))
    play.act(blue=action)
    speed = 2 * (1 - 0.94**5) * 0.94 / 0.06
    np.testing.assert_allclose(play.world.dynamics.velocity[:, 0, 0], speed * np.array(way), atol=1e-9)
    np.testing.assert_allclose(np.degrees(play.world.heading[0]), [90 + degrees, 90 + degrees, -90, -90])


@pytest.mark.parametrize("scorer", [0, 1])
def test_a_goal_pays_the_sooner_the_more_costs_the_others_one_and_ends_both_episodes(scorer):
    play = Play(areas=2)
    for _ in range(10):
        play.place((0, 0), area=0)
        play.place((0, 0), area=1)
        play.act()
    way = 1 if scorer == 0 else -1
    play.place((way * 14.7, 0), rolling=(way * 10, 0), area=1)
    batches = play.act()
    won, lost = batches[BEHAVIORS[scorer]], batches[BEHAVIORS[1 - scorer]]
    for batch in (won, lost):
        np.testing.assert_array_equal(batch.done, [True] * 2 + [False] * 4)
        assert not batch.interrupted.any()
        np.testing.assert_array_equal(batch.reward, 0)
        np.testing.assert_array_equal(batch.group_reward[2:], 0)
    np.testing.assert_allclose(won.group_reward[:2], 1 - 51 / 5000, atol=1e-6)
    np.testing.assert_array_equal(lost.group_reward[:2], -1)
    ((name, value, _),) = play.world.statistics()
    assert (name, value) == (DECIDED, 1)


def test_the_limit_of_steps_rewards_neither_team():
    play = Play(max_steps=5)
    for batch in play.act().values():
        np.testing.assert_array_equal(batch.group_reward, 0)
    assert play.world.statistics()[0][1] == 0


def test_a_player_that_runs_into_the_ball_kicks_it_along_the_line_between_them():
    play = Play()
    game = play.world.dynamics
    play.place((0, 0), players=((-1.3, 0), *FAR[1:]))
    play.act(blue=(1, 0, 0))
    kicked = game.velocity[:, 0, BALL].copy()
    assert kicked[0] > 13
    assert abs(kicked[1]) < 1e-9
    # A step backward into it only bumps it.
    play.place((0, 0), players=((-1.3, 0), *FAR[1:]), headings=(-90, 90, -90, -90))
    play.act(blue=(2, 0, 0))
    assert 0 < game.velocity[0, 0, BALL] < kicked[0] - 9


def test_a_touch_pays_its_player_alone_as_the_parameter_says():
    for value, paid in ((0.0, 0), (0.5, 0.1)):
        play = Play(parameters=[("ball_touch", value)])
        play.place((0, 0), players=((-1.3, 0), *FAR[1:]))
        batches = play.act(blue=(1, 0, 0))
        np.testing.assert_allclose(batches[BLUE].reward, [paid, 0], atol=1e-7)
        np.testing.assert_array_equal(batches[PURPLE].reward, 0)
        np.testing.assert_array_equal(batches[BLUE].group_reward, 0)


def test_the_ball_bounces_off_walls():
    play = Play()
    play.place((0, 6.5), rolling=(0, 8))
    play.act()
    assert -0.8 * 8 < play.world.dynamics.velocity[1, 0, BALL] < -0.8 * 8 * 0.9


def test_players_and_ball_stay_on_the_pitch_and_out_of_each_other():
    play, random, deepest = Play(areas=30), np.random.default_rng(1), 0.0
    game, (normals, distances) = play.world.dynamics, play.world.pitch.planes
    reach = np.where(np.arange(5) == BALL, BALL_RADIUS, 0.5)
    for _ in range(100):
        play.act_randomly(random)
        out = np.einsum("eb,bkn->ekn", normals, game.position) - distances[:, None, None]
        assert out[..., BALL].max() < -BALL_RADIUS + 0.01
        assert out[..., :BALL].max() < -0.5 + 0.1
        apart = np.hypot(*(game.position[..., :, None] - game.position[..., None, :]))
        depth = reach[:, None] + reach - apart - 2 * np.eye(5)
        deepest = max(deepest, float(np.median(depth.max(axis=(1, 2)))))
    assert deepest < 0.05


def test_rays_have_the_tags_of_each_team():
    play = Play()
    play.place((-9, 1), players=((-9, -2), (-2, -2), (3, -2), (9, 6)), headings=(90, -90, 90, -90))
    batches = play.act()
    blue = batches[BLUE].obs[0].reshape(2, 3, 11, 8)[:, -1]
    purple = batches[PURPLE].obs[0].reshape(2, 3, 11, 8)[:, -1]
    assert blue[0, 0, OWN_TEAM] == 1
    np.testing.assert_allclose(blue[0, 0, -1], (7 - 1) / 20, rtol=1e-5)
    assert blue[1, 0, OWN_TEAM] == 1
    # Purple's player has the goal that it defends 12.5 m ahead, and blue's goal behind others at its back.
    assert purple[0, 0, OWN_GOAL] == 1
    np.testing.assert_allclose(purple[0, 0, -1], (12.5 - 0.5) / 20, rtol=1e-5)
    behind = batches[PURPLE].obs[1].reshape(2, 3, 3, 8)[0, -1]
    assert behind[0, OTHER_TEAM] == 1
    # Turned to the left, towards the ball.
    play.place((-9, 3), players=((-9, -2), *FAR[1:]), headings=(0, 90, -90, -90))
    ahead = play.act()[BLUE].obs[0].reshape(2, 3, 11, 8)[0, -1]
    np.testing.assert_allclose(ahead[0, [0, -1]], [1, (5 - 0.5 - BALL_RADIUS) / 20], rtol=1e-5)
    assert ahead[-2, WALL] == ahead[-1, OWN_GOAL] == 1


@pytest.mark.parametrize("senses", ["rays", "vector"])
def test_both_teams_see_the_same_of_a_mirrored_pitch(senses):
    play = Play(senses=senses)
    players = np.array([(-5, 2), (-3, -1), (4, 3), (6, -2)], float)
    turned = -players[[2, 3, 0, 1]]
    play.place((1, 2), players=players, headings=(60, 100, -80, 200), rolling=(2, 1))
    blue = play.world._request_decisions()[BLUE].obs[0]
    play.place((-1, -2), players=turned, headings=(100, 20, 240, 280), rolling=(-2, -1))
    purple = play.world._request_decisions()[PURPLE].obs[0]
    size = blue.shape[1] // (3 if senses == "rays" else 1)
    np.testing.assert_allclose(blue[:, -size:], purple[:, -size:], atol=1e-6)
