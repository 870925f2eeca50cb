"""One against one over a net, seen from the side, by rules of our own; two teams of one for self-play."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ...agents import IndependentAgents
from ...options import SIZES, SceneOptions, SceneWorld, option
from ...physics2d import DECISION_PERIOD, GRAVITY, Floats, Indices
from ...sensors import vector_spec
from ...world import Actions, Batches, Statistic, take_averages
from .dynamics import BACKCOURT, HIGHEST, NEAREST, SIDE, TILT, Court, TennisDynamics

BEHAVIORS = ("Tennis?team=0", "Tennis?team=1")
"""The player at -x, and the player at +x."""
HITS = "Tennis/Hits"
"""The statistic of how often a ball was hit in an episode."""

_SIZE = 16
_BALL_SPEED = 10.0
"""m/s that count as 1."""
_SERVE = ((0.4, 0.9), (2.0, 3.0))
"""The range of shares of half the court, and of heights, at which a ball starts to fall."""


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
