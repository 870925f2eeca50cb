"""The rules of Tennis, and that it can be played."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.tennis import (
    BALL_RADIUS,
    BEHAVIORS,
    HIGHEST,
    HITS,
    LOWEST,
    NEAREST,
    SIDE,
    TILT,
    Tennis,
)
from scene_play import ScenePlay

LEFT, RIGHT = BEHAVIORS


class Play(ScenePlay):
    scene = Tennis

    def act(self, left=(0, 0, 0), right=(0, 0, 0)):
        moves = zip(BEHAVIORS, (left, right))
        return self.step({name: self.actions(name, continuous=action) for name, action in moves})

    @property
    def rally(self):
        return self.world.dynamics

    def throw(self, x, y, velocity=(0, 0), turn=0, bounces=0, area=0):
        """The ball flies on from there; the rackets are out of its way."""
        rally = self.rally
        rally.serve(np.array([area]), np.array([[x], [y]], float), np.array([turn]))
        rally.ball_velocity[:, area], rally.bounces[area] = velocity, bounces
        rally.racket[0, :, area], rally.racket[1, :, area] = (-8, 8), HIGHEST

    def hold(self, x, y, degrees=0.0, player=0, area=0):
        self.rally.racket[:, player, area] = x, y
        tilt = np.radians(degrees)
        self.rally.tilt[player, area] = self.rally._wanted[2, player, area] = tilt
        return (0, 0, 2 * (tilt - TILT[0]) / (TILT[1] - TILT[0]) - 1)

    def play_on(self, most=60):
        """Until the point is decided: what left and right are paid."""
        for _ in range(most):
            batches = self.act()
            if batches[LEFT].done.any():
                return batches[LEFT].reward[0], batches[RIGHT].reward[0]
        raise AssertionError("the point goes on")


@pytest.mark.parametrize(
    ("ball", "velocity", "turn", "bounces", "paid"),
    [
        # It is left's ball.
        ((-3, 1), (0, 0), 0, 0, (-1, 1)),  # it bounces twice before him
        ((-3, 1), (-6, 0), 0, 1, (-1, 1)),  # the second bounce is behind the court
        ((-3, 1), (-20, 0), 0, 0, (1, -1)),  # right has hit it out
        ((3, 1), (0, 0), 0, 0, (1, -1)),  # right has hit it onto the own side
        ((2, 0.6), (-8, 0), 0, 0, (1, -1)),  # right has hit it into the net
        # It is right's.
        ((3, 1), (0, 0), 1, 0, (1, -1)),
        ((3, 1), (20, 0), 1, 0, (-1, 1)),
        ((-3, 1), (0, 0), 1, 0, (-1, 1)),
        ((-2, 0.6), (8, 0), 1, 0, (-1, 1)),
    ],
)
def test_which_player_loses_the_point(ball, velocity, turn, bounces, paid):
    play = Play()
    play.throw(*ball, velocity, turn, bounces)
    assert play.play_on() == paid
    for batch in play.batches.values():
        np.testing.assert_array_equal(batch.done, [True, False])
        assert not batch.interrupted.any()
        assert batch.reward[1] == 0


def test_a_ball_over_the_net_and_into_the_court_is_the_others_to_play():
    play = Play()
    play.throw(-4, 1.5, (7, 4), turn=1)
    while play.rally.bounces[0] == 0:
        assert not play.act()[LEFT].done.any()
    assert 0 < play.rally.ball[0, 0] < 6
    assert play.rally.turn[0] == 1
    assert play.play_on() == (1, -1)


def test_a_racket_sends_the_ball_back_and_gives_it_its_own_speed():
    still, swung = Play(), Play()
    for play, action in ((still, 0), (swung, 1)):
        play.throw(-3, 1.5, (-6, 1), turn=0)
        play.rally.gravity = 0.0
        tilt = play.hold(-3.5, 1.5)[2]
        play.act(left=(action, 0, tilt))
        assert play.rally.turn[0] == 1
        assert play.rally.hits[0] == 1
    np.testing.assert_allclose(still.rally.ball_velocity[:, 0], [0.8 * 6, 1], atol=1e-9)
    assert swung.rally.ball_velocity[0, 0] > 0.8 * 6 + 2


@pytest.mark.parametrize(
    ("ball", "velocity", "turn", "racket", "sent"),
    [
        ((-3, 1.5), (-6, 0), 0, (-3.6, 1.5, 45), (-6 + 1.8 * 3, 1.8 * 3)),  # a tilted racket sends it up
        ((-1, 1.5), (-80, 0), 0, (-5.2, 1.5, 0), (0.8 * 80, 0)),  # none is too fast
        ((-3, 1.5), (-3, 0), 1, (-3.2, 1.5, 0), (-3, 0)),  # it is the other player's
    ],
)
def test_a_racket_hits_its_players_ball(ball, velocity, turn, racket, sent):
    play = Play()
    play.throw(*ball, velocity, turn)
    play.rally.gravity = 0.0
    play.act(left=play.hold(*racket))
    assert play.rally.hits[0] == (turn == 0)
    np.testing.assert_allclose(play.rally.ball_velocity[:, 0], sent, atol=1e-5)


def test_rackets_stay_in_reach_and_below_their_speed():
    play = Play(areas=20)
    random = np.random.default_rng(0)
    for _ in range(100):
        before = play.rally.racket.copy()
        ended = play.act(random.choice([-3, 3], (20, 3)), random.choice([-3, 3], (20, 3)))[LEFT]
        going = ~np.isin(np.arange(20), ended.agent_id[ended.done])
        moved = np.abs(play.rally.racket - before)[:, :, going]
        assert moved.max() <= 0.1 * 7 + 1e-9
        x, y = play.rally.racket[0] * SIDE, play.rally.racket[1]
        assert x.max() <= -NEAREST
        assert x.min() >= -8.5
        assert LOWEST <= y.min() <= y.max() <= HIGHEST
        assert TILT[0] - 1e-9 <= play.rally.tilt.min() <= play.rally.tilt.max() <= TILT[1] + 1e-9


def test_gravity_follows_its_parameter_at_once():
    play = Play()
    play.throw(-3, 3)
    play.parameters.set("gravity", 1.0)
    play.act()
    np.testing.assert_allclose(play.rally.ball_velocity[1, 0], -0.1)


def test_serves_go_to_both_as_often_and_fall_before_them():
    rally = Play(areas=1000).rally
    assert 400 < rally.turn.sum() < 600
    own = np.where(rally.turn == 0, -1, 1) * rally.ball[0]
    assert 2.4 <= own.min() < 2.5
    assert 5.3 < own.max() <= 5.4
    np.testing.assert_array_equal(rally.ball_velocity, 0)


def test_both_seats_see_the_same_of_a_mirrored_court():
    play = Play(areas=2)
    rally, random = play.rally, np.random.default_rng(1)
    mirror = np.array([-1, 1])
    rally.racket[..., 0], rally.racket_velocity[..., 0] = random.normal(size=(2, 2, 2))
    rally.racket[..., 1] = rally.racket[:, ::-1, 0] * mirror[:, None]
    rally.racket_velocity[..., 1] = rally.racket_velocity[:, ::-1, 0] * mirror[:, None]
    rally.tilt[:, 0] = 0.1, 0.7
    rally.tilt[:, 1] = 0.7, 0.1
    rally.ball[:, 0], rally.ball_velocity[:, 0] = random.normal(size=(2, 2))
    rally.ball[:, 1] = rally.ball[:, 0] * mirror
    rally.ball_velocity[:, 1] = rally.ball_velocity[:, 0] * mirror
    rally.turn[:], rally.bounces[:] = (0, 1), (1, 1)
    batches = play.world._request_decisions()
    left, right = batches[LEFT].obs[0], batches[RIGHT].obs[0]
    np.testing.assert_allclose(left[0], right[1], atol=1e-6)
    np.testing.assert_allclose(left[1], right[0], atol=1e-6)
    assert left[0, 14] == 1
    assert right[0, 14] == 0


def player(world, seat):
    """Volleys: is where the ball will be 1.2 m high, and swings so that it lands in the other half."""
    rally, side, speed = world.dynamics, SIDE[seat, 0], world.options.speed
    ball = rally.ball * [[side], [1]]
    x, up = rally.ball_velocity[0] * side, rally.ball_velocity[1]
    gravity = rally.gravity
    fall = np.maximum(up**2 + 2 * gravity * (ball[1] - 1.2), 0)
    time = np.where(fall > 0, (up + np.sqrt(fall)) / gravity, 0)
    comes = np.stack([x, up - gravity * time])
    meet = np.stack([ball[0] + x * time, np.where(fall > 0, 1.2, ball[1])])
    angle, far = np.radians(52), 3.3 - meet[0]
    drop = np.maximum(far * np.tan(angle) + meet[1] - BALL_RADIUS, 0.1)
    goes = far / np.cos(angle) * np.sqrt(gravity / (2 * drop)) * [[np.cos(angle)], [np.sin(angle)]]
    change = goes - comes
    push = np.hypot(*change)
    normal = change / push
    swing = np.clip(push / 1.8 + (comes * normal).sum(axis=0), -speed, speed)
    # The swing begins a decision before the last one, at 60 m/s² up to its speed.
    lead = np.mod(time, 0.1) + 0.1
    wait = meet - normal * (BALL_RADIUS + swing * lead - swing * np.abs(swing) / 120)
    wait[1] = np.clip(wait[1], LOWEST, HIGHEST)
    mine = rally.turn == seat
    target = np.where(mine, wait, np.array([[-4.5], [1.0]]))
    racket = rally.racket[:, seat] * [[side], [1]]
    move = np.where(mine & (time <= 0.2), normal * swing, 8 * (target - racket)) / speed
    tilt = 2 * (np.arctan2(normal[1], normal[0]) - TILT[0]) / (TILT[1] - TILT[0]) - 1
    return np.clip(np.concatenate([move, tilt[None]]), -1, 1).T


def test_scripted_players_keep_the_ball_up_and_beat_random_actions():
    play = Play(areas=32)
    for _ in range(250):
        batches = play.act(player(play.world, 0), player(play.world, 1))
        assert not batches[LEFT].done.any()
    assert play.rally.hits.min() > 15
    random, won = np.random.default_rng(0), []
    for _ in range(400):
        batch = play.act(player(play.world, 0), random.uniform(-1, 1, (32, 3)))[LEFT]
        won += batch.reward[batch.done].tolist()
    assert len(won) > 200
    assert np.mean(won) > 0.8
    assert {name for name, _, _ in play.world.statistics()} == {HITS}
