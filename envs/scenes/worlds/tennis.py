"""One against one over a net, seen from the side, by rules of our own; two teams of one for self-play."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ..options import SIZES, SceneOptions, SceneWorld, option
from ..parts.agents import IndependentAgents
from ..parts.physics2d import DECISION_PERIOD, GRAVITY, TIME_STEP, Array, Floats, Indices
from ..parts.sensors import vector_spec
from ..world import Actions, Batches, Statistic, take_averages

SIDE = np.array([[1.0], [-1.0]])
"""The factors by which x is multiplied to get from a player's own eyes to the court, [2, 1]."""
BALL_RADIUS = 0.15
LOWEST, HIGHEST = 0.3, 4.0
"""The heights between which the center of a racket moves."""
NEAREST, BACKCOURT = 0.7, 2.5
"""How near the net a racket can get, and how far beyond the end of the court."""
TILT = np.radians([-25.0, 65.0])
"""How a racket can face, in radians from the upright, upwards positive."""

_GROUND_BOUNCE, _GROUND_KEEP = 0.75, 0.9
"""Shares of the upward and of the level speed that a bounce leaves."""
_RACKET_BOUNCE = 0.8
_NET_BOUNCE = 0.2
_ACCELERATION = 60.0
"""The greatest acceleration of a racket, m/s²."""
_TURN = 12.0
"""The greatest turning speed of a racket, rad/s."""


@dataclass(frozen=True, slots=True)
class Court:
    """What is the same on all courts."""

    length: float
    """The length of the court from end to end, in meters."""
    net: float
    """The height of the net, in meters."""
    racket: float
    """The length of a racket from one end to the other, in meters."""
    speed: float
    """The greatest speed of a racket, m/s."""


class TennisDynamics:
    """Balls and rackets of n courts, whose turn it is, and how often the ball has bounced there."""

    def __init__(self, count: int, court: Court) -> None:
        self.court = court
        self.gravity = GRAVITY
        self.ball: Array = np.zeros((2, count))
        self.ball_velocity: Array = np.zeros((2, count))
        self.racket: Array = np.zeros((2, 2, count))
        """The positions x and y of both players' rackets, [2, players, n]."""
        self.racket_velocity: Array = np.zeros((2, 2, count))
        self.tilt: Array = np.zeros((2, count))
        """The tilts of the rackets, [players, n], within `TILT`."""
        self.turn: Indices = np.zeros(count, np.intp)
        """The player whose ball it is, [n]."""
        self.bounces: Indices = np.zeros(count, np.intp)
        """How often the ball has bounced on the ground since it is that player's, [n]."""
        self.hits: Indices = np.zeros(count, np.intp)
        """How often rackets have hit the ball since the serve, [n]."""
        self._wanted = np.zeros((3, 2, count))
        self._all = np.arange(count)

    def serve(self, which: Indices, ball: Array, server: Indices) -> None:
        """Start a point on some courts: balls [2, k] at rest in the air before the `server` [k]."""
        self.ball[:, which], self.ball_velocity[:, which] = ball, 0
        home = self.court.length / 2 * 0.8
        self.racket[0][:, which], self.racket[1][:, which] = -home * SIDE, 1.0
        self.racket_velocity[:, :, which], self.tilt[:, which] = 0, 0
        self._wanted[:, :, which] = 0
        self.turn[which], self.bounces[which], self.hits[which] = server, 0, 0

    def command(self, actions: Array) -> None:
        """Set what the rackets try until the next call.

        `actions`: [3, players, n] within -1 and 1: towards the net and up as shares of the speed, and the
        tilt from its lowest to its highest.
        """
        self._wanted[:2] = actions[:2] * self.court.speed
        self._wanted[0] *= SIDE
        self._wanted[2] = TILT[0] + (actions[2] + 1) / 2 * (TILT[1] - TILT[0])

    def step(self) -> Array:
        """Make one physics step; return the points won by player 0, [n]: 1, -1 if lost, 0 if undecided."""
        before = self.ball - self._own(self.racket)
        self._move_rackets()
        self.ball_velocity[1] -= self.gravity * TIME_STEP
        came_from = self.ball[0].copy()
        self.ball += self.ball_velocity * TIME_STEP
        self._hit(before)
        self._meet_net(came_from)
        return self._meet_ground()

    def _own(self, both: Array) -> Array:
        """The values, out of [..., players, n], of the player whose ball it is: [..., n]."""
        return np.where(self.turn == 0, both[..., 0, :], both[..., 1, :])

    def _move_rackets(self) -> None:
        most = _ACCELERATION * TIME_STEP
        velocity = self.racket_velocity
        velocity += np.minimum(np.maximum(self._wanted[:2] - velocity, -most), most)
        turn = _TURN * TIME_STEP
        self.tilt += np.minimum(np.maximum(self._wanted[2] - self.tilt, -turn), turn)
        wished = self.racket + velocity * TIME_STEP
        own_x = wished[0] * SIDE
        np.minimum(np.maximum(own_x, -self.court.length / 2 - BACKCOURT), -NEAREST, out=own_x)
        np.multiply(own_x, SIDE, out=self.racket[0])
        np.minimum(np.maximum(wished[1], LOWEST), HIGHEST, out=self.racket[1])
        velocity *= self.racket == wished

    def _hit(self, before: Array) -> None:
        """The racket of whose ball it is sends it back, with either face; the other's cannot touch it.

        `before`: [2, n], where the ball was as seen from that racket when the step began. What counts is
        the way from there to now, so that nothing is too fast to be hit.
        """
        own_tilt = self._own(self.tilt)
        facing = np.where(self.turn == 0, 1.0, -1.0)
        normal = np.stack([np.cos(own_tilt) * facing, np.sin(own_tilt)])
        now = self.ball - self._own(self.racket)
        ahead, was_ahead = (normal * now).sum(axis=0), (normal * before).sum(axis=0)
        face = np.where(was_ahead < 0, -1.0, 1.0)
        aside = np.abs(normal[0] * now[1] - normal[1] * now[0])
        swing = self._own(self.racket_velocity)
        closing = -((self.ball_velocity - swing) * normal).sum(axis=0) * face
        hit = (ahead * face < BALL_RADIUS) & (aside < self.court.racket / 2 + BALL_RADIUS / 2) & (closing > 0)
        # A ball that was out of a racket's reach, far on its other side, did not come through it.
        hit &= np.abs(was_ahead) < BALL_RADIUS + 1.0
        if not hit.any():
            return
        (which,) = np.nonzero(hit)
        out = normal[:, which] * face[which]
        self.ball_velocity[:, which] += out * (1 + _RACKET_BOUNCE) * closing[which]
        self.ball[:, which] += out * np.maximum(BALL_RADIUS - (ahead * face)[which], 0)
        self.turn[which] = 1 - self.turn[which]
        self.bounces[which] = 0
        self.hits[which] += 1

    def _meet_net(self, came_from: Array) -> None:
        """Balls that would go through the net fall down before it."""
        into = (came_from * self.ball[0] <= 0) & (self.ball[1] < self.court.net + BALL_RADIUS)
        into &= came_from != 0
        if into.any():
            (which,) = np.nonzero(into)
            self.ball[0, which] = np.copysign(BALL_RADIUS, came_from[which])
            self.ball_velocity[0, which] *= -_NET_BOUNCE

    def _meet_ground(self) -> Array:
        """Let balls bounce off the ground; return the points that this decides, as `step` does."""
        won = np.zeros(len(self.turn))
        down = (self.ball[1] < BALL_RADIUS) & (self.ball_velocity[1] < 0)
        if not down.any():
            return won
        (which,) = np.nonzero(down)
        x, turn = self.ball[0, which], self.turn[which]
        before_him = (x < 0) == (turn == 0)
        out = (np.abs(x) > self.court.length / 2) & (self.bounces[which] == 0)
        self.bounces[which] += before_him
        # The player who hit it last sent it onto their own side, or out.
        badly_hit = ~before_him | out
        missed = ~badly_hit & (self.bounces[which] == 2)
        winner = np.where(badly_hit, turn, 1 - turn)
        won[which] = np.where(badly_hit | missed, np.where(winner == 0, 1.0, -1.0), 0)
        self.ball[1, which] = 2 * BALL_RADIUS - self.ball[1, which]
        self.ball_velocity[0, which] *= _GROUND_KEEP
        self.ball_velocity[1, which] *= -_GROUND_BOUNCE
        return won


BEHAVIORS = ("Tennis?team=0", "Tennis?team=1")
"""The player at -x, and the player at +x."""
HITS = "Tennis/Hits"
"""The statistic of how often a ball was hit in an episode."""

_SIZE = 16
_BALL_SPEED = 10.0
"""The speed in m/s that counts as 1."""
_SERVE = ((0.4, 0.9), (2.0, 3.0))
"""The ranges of the shares of half the court, and of the heights, at which a ball starts to fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TennisOptions(SceneOptions):
    """Sizes, speeds and duration."""

    scene: ClassVar[str] = "tennis"

    areas: int = option(32, "how many courts there are")
    size: str = option("full", "full and small are the same here", small="small", choices=SIZES)
    length: float = option(12.0, "meters from end to end of the court")
    net: float = option(1.0, "its height in meters")
    racket: float = option(0.9, "meters from end to end of a racket")
    speed: float = option(7.0, "meters per second of a racket, at most")
    max_steps: int = option(2000, "physics steps of an episode", decision_period=DECISION_PERIOD)

    def check(self) -> None:
        """Refuse courts that are too short, or whose nets are too high."""
        if self.length < 4 * NEAREST or self.net > HIGHEST:
            raise ValueError(
                f"tennis: a court of {self.length:g} m with a net of {self.net:g} m; it must be at "
                f"least {4 * NEAREST:g} m long, and the net not higher than the rackets reach, {HIGHEST:g} m."
            )


class Tennis(SceneWorld[TennisOptions]):
    """Any number of courts with two players each. Omitted options take the values of `size`."""

    options_type = TennisOptions
    parameters_read = ("gravity",)
    gravity = GRAVITY

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self.dynamics: TennisDynamics = TennisDynamics(
            areas, Court(options.length, options.net, options.racket, options.speed)
        )
        self.players = IndependentAgents(2 * areas, len(BEHAVIORS))
        self._agent_sets = [self.players]
        self.players.behavior[:] = np.repeat([0, 1], areas)
        self._hits: list[float] = []

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """A behavior for each seat: 16 numbers, three continuous actions."""
        actions = ActionSpec.create_continuous(3)
        return {name: BehaviorSpec([vector_spec(_SIZE)], actions) for name in BEHAVIORS}

    def step(self, actions: Actions) -> Batches:
        """Play for one decision period. Actions: 3 for each player, within -1 and 1."""
        self._apply_gravity()
        chosen = np.stack([actions[name][0] for name in BEHAVIORS])
        self.dynamics.command(np.clip(chosen.astype(np.float64), -1, 1).transpose(2, 0, 1))
        for _ in range(DECISION_PERIOD):
            won = self.dynamics.step()
            self._age += 1
            late = self._age >= self.options.max_steps
            if won.any() or late.any():
                self.players.add_reward(np.concatenate([won, -won]))
                self._end_episodes(won != 0, interrupted=False)
                self._end_episodes(late & (won == 0), interrupted=True)
        return self._request_decisions()

    def statistics(self) -> Sequence[Statistic]:
        """How often the ball was hit in each episode that has ended."""
        return take_averages(HITS, self._hits)

    def _end_episodes(self, over: NDArray[np.bool_], interrupted: bool) -> None:
        (which,) = np.nonzero(over)
        if len(which):
            self.players.end_episodes(
                np.concatenate([which, which + self.areas]), [self._observe(which)], interrupted
            )
            self._hits += self.dynamics.hits[which].tolist()
            self._start_episodes(which)

    def _start_episodes(self, which: Indices) -> None:
        """A ball falls in front of either player with equal probability."""
        random, count = self._random, len(which)
        server = random.integers(2, size=count)
        (near, far), (low, high) = _SERVE
        away = random.uniform(near, far, count) * self.options.length / 2
        ball = np.stack([np.where(server == 0, -away, away), random.uniform(low, high, count)])
        self.dynamics.serve(which, ball, server)
        self._age[which] = 0

    def _request_decisions(self) -> Batches:
        return dict(zip(BEHAVIORS, self.players.request_decisions([self._observe(np.arange(self.areas))])))

    def _observe(self, which: Indices) -> Floats:
        """What the players of some courts [k] see, as if they all played towards +x: [2 * k, 16].

        The own racket's place (2), velocity (2) and tilt from -1 to 1 (1), the same of the other's (5), the
        ball's place (2) and velocity (2), whether it is the own ball (1), and how often it has bounced (1).
        """
        rally, options = self.dynamics, self.options
        obs = np.empty((2, len(which), _SIZE), np.float32)
        place = np.array([options.length / 2 + BACKCOURT, HIGHEST])[:, None, None]
        racket = rally.racket[:, :, which] / place
        speed = rally.racket_velocity[:, :, which] / options.speed
        ball = rally.ball[:, None, which] / place
        flight = rally.ball_velocity[:, None, which] / _BALL_SPEED
        tilt = 2 * (rally.tilt[:, which] - TILT[0]) / (TILT[1] - TILT[0]) - 1
        for first, seat in ((0, 1), (5, -1)):
            obs[..., first], obs[..., first + 1] = racket[0, ::seat] * SIDE, racket[1, ::seat]
            obs[..., first + 2], obs[..., first + 3] = speed[0, ::seat] * SIDE, speed[1, ::seat]
            obs[..., first + 4] = tilt[::seat]
        obs[..., 10], obs[..., 11] = ball[0] * SIDE, ball[1]
        obs[..., 12], obs[..., 13] = flight[0] * SIDE, flight[1]
        obs[..., 14] = rally.turn[which] == np.array([[0], [1]])
        obs[..., 15] = rally.bounces[which]
        return obs.reshape(-1, _SIZE)
