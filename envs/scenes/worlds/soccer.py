"""Unity's SoccerTwos: two against two, each team a group with a behavior name of its own for self-play.

Numbers, sensors and rewards are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, ObservationSpec
from numpy.typing import NDArray

from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import AgentGroups
from ..parts.physics2d import DECISION_PERIOD, Array, Flags, Floats, Indices
from ..parts.sensors import FrameStack, RaySensor, own_motion, seen_from, to_circles, vector_spec
from ..world import Actions, Batches, Statistic, take_averages
from .soccer_dynamics import BALL, BALL_RADIUS, GOAL_OF_TEAM, PLAYER_RADIUS, PLAYERS, Pitch, SoccerDynamics

TAGS = ("ball", "own goal", "other goal", "wall", "own team", "other team")
FRAMES = 3
TEAMS = ("Blue", "Purple")

_LENGTH = 20.0
_RADIUS = 0.5
_TEAM = np.array([0, 0, 1, 1])
_OTHERS = np.array([[1, 2, 3], [0, 2, 3], [3, 0, 1], [2, 0, 1]])
"""The other players, for each player: its teammate, then the opponents."""
_PLACES = 26
_SPEED = 4.0
"""The speed in m/s that counts as 1."""


class SoccerSensors:
    """The sensors of all players; x, z, heading and velocity are those of `pitch.SoccerDynamics`."""

    def __init__(self, areas: int, pitch: Pitch) -> None:
        self._normals, self._distances = pitch.planes
        self._half = np.array([pitch.length, pitch.width])[:, None, None] / 2
        self._goal_x = pitch.length / 2
        self._forward = RaySensor(per_side=5, degrees=60, length=_LENGTH, tags=len(TAGS), radius=_RADIUS)
        self._backward = RaySensor(per_side=1, degrees=45, length=_LENGTH, tags=len(TAGS), radius=_RADIUS)
        self.sizes = (self._forward.size, self._backward.size)
        self._frames = [FrameStack(areas, PLAYERS, FRAMES, size) for size in self.sizes]
        self._tags = _tags_by_player()

    def specs(self, senses: str, team: int) -> list[ObservationSpec]:
        """Rays ahead and behind, the last frames of each; or the places of everything."""
        if senses == "vector":
            return [vector_spec(_PLACES)]
        name = f"StackingSensor_size{FRAMES}_{TEAMS[team]}RayPerceptionSensor"
        return [vector_spec(FRAMES * size, name + end) for end, size in zip(("", "Reverse"), self.sizes)]

    def clear(self, which: Indices) -> None:
        """Start an episode in these areas."""
        for stack in self._frames:
            stack.clear(which)

    def observe(self, position: Array, heading: Array, velocity: Array, senses: str) -> list[Floats]:
        """Each sensor of all players of all areas, [areas, players, size]: the frames go on."""
        if senses == "vector":
            return [self.places(position, heading, velocity)]
        return [stack.push(frame) for stack, frame in zip(self._frames, self.rays(position, heading))]

    def peek(
        self, which: Indices, position: Array, heading: Array, velocity: Array, senses: str
    ) -> list[Floats]:
        """What `observe` returns, for some areas [k], [k, players, size]; the frames stay as they are."""
        if senses == "vector":
            return [self.places(position, heading, velocity)]
        seen = self.rays(position, heading)
        return [stack.peek(which, frame) for stack, frame in zip(self._frames, seen)]

    def rays(self, position: Array, heading: Array) -> list[Floats]:
        """One frame of both fans of players with headings [k, players]; `position`: of all bodies."""
        players = position[..., :PLAYERS]
        rays = np.concatenate(
            [self._forward.directions(heading), self._backward.directions(heading + np.pi)], axis=3
        )
        circles = np.empty((3, *position.shape[1:]))
        circles[:2], circles[2, :, :PLAYERS], circles[2, :, BALL] = position, PLAYER_RADIUS, BALL_RADIUS
        bodies = to_circles(players, rays, circles, _RADIUS)
        bodies[:, np.arange(PLAYERS), :, np.arange(PLAYERS)] = np.inf
        away = np.einsum("eb,b...r->...re", self._normals, rays)
        room = self._distances - _RADIUS - np.einsum("eb,b...->...e", self._normals, players)[:, :, None]
        np.maximum(room, 0, out=room)
        edges = np.where(away > 1e-9, room / np.maximum(away, 1e-9), np.inf)
        distances = np.concatenate([bodies, edges], axis=3)
        nearest = distances.argmin(axis=3)
        distance = np.take_along_axis(distances, nearest[..., None], axis=3)[..., 0]
        tag = self._tags[np.arange(PLAYERS)[:, None], nearest]
        middle = self._forward.count
        return [
            self._forward.encode(distance[..., :middle], tag[..., :middle]),
            self._backward.encode(distance[..., middle:], tag[..., middle:]),
        ]

    def places(self, position: Array, heading: Array, velocity: Array) -> Floats:
        """The positions of everything in each player's own frame: [k, players, 26].

        The place (2) and heading (sine, cosine) as seen by a team that plays towards +x; then, to the right
        and ahead, the own velocity (2), the ball and its velocity (4), the mate and its velocity (4), both
        opponents and theirs (8), the centers of the other and of the own goal (4). Places are shares of half
        the pitch's length, the own one along z of half its width; velocities are divided by 4 m/s.
        """
        k = position.shape[1]
        side = np.where(_TEAM == 0, 1.0, -1.0)
        obs = np.empty((k, PLAYERS, _PLACES), np.float32)
        place = position[..., :PLAYERS] * side / self._half
        turned = heading + np.pi * _TEAM
        obs[..., :6] = own_motion(place, turned, velocity[..., :PLAYERS] * side)
        goals = np.broadcast_to(np.array([[self._goal_x, -self._goal_x], [0, 0]])[:, None], (2, k, 2))
        places = np.concatenate([position, goals], axis=2)
        seen = seen_from(position[..., :PLAYERS], heading, places) / self._goal_x
        moves = seen_from(np.zeros((2, k, PLAYERS)), heading, velocity) / _SPEED
        players = np.arange(PLAYERS)[:, None]
        order = np.concatenate([np.full((PLAYERS, 1), BALL), _OTHERS], axis=1)
        rows = np.concatenate([seen[:, :, players, order], moves[:, :, players, order]])
        obs[..., 6:22] = rows.transpose(1, 2, 3, 0).reshape(k, PLAYERS, 16)
        # A team's own goal is the other's other goal.
        mouths = np.stack([_TEAM, 1 - _TEAM], axis=1) + PLAYERS + 1
        obs[..., 22:] = seen[:, :, players, mouths].transpose(1, 2, 3, 0).reshape(k, PLAYERS, 4)
        return obs


def _tags_by_player() -> Indices:
    """The tag of each thing, players, ball and edges, for each player: [players, things]."""
    tags = np.full((PLAYERS, PLAYERS + 1 + 8), TAGS.index("wall"))
    tags[:, BALL] = TAGS.index("ball")
    for player, team in enumerate(_TEAM):
        tags[player, :PLAYERS] = np.where(team == _TEAM, TAGS.index("own team"), TAGS.index("other team"))
        tags[player, PLAYERS + 1 + GOAL_OF_TEAM[team]] = TAGS.index("own goal")
        tags[player, PLAYERS + 1 + GOAL_OF_TEAM[1 - team]] = TAGS.index("other goal")
    return tags


BEHAVIORS = ("SoccerTwos?team=0", "SoccerTwos?team=1")
"""The behaviors of the teams: blue, which starts on the side of -x, and purple."""
MEMBERS = 2
DECIDED = "Soccer Twos/Decided"
"""The statistic of episodes that a goal has ended: 1, or 0 where time has."""

_TURN = np.radians([0, -2, 2])
_FORWARD = np.array([0, 1, -1])
_SIDE = np.array([0, 0.3, -0.3])
_TOUCH_REWARD = 0.2
_ORIGINAL_LENGTH = 31.0
_START, _START_SPREAD, _BALL_SPREAD = 5.0, 5.0, 2.5
"""Meters from the center of a pitch of the original's length: where players start, along its length; how far
from there; and the ball from the center."""
_START_ASIDE = 0.16
"""How far from the pitch's center line players start, as a share of its width; ours."""
_START_HEADING = 10.0
"""The most degrees from straight ahead by which players are turned at the start."""


# On a pitch that a kick crosses the ball bounces off the walls into any goal: good players hardly win more
# often. The small size is for dribbling.
@dataclass(frozen=True, slots=True, kw_only=True)
class SoccerTwosOptions(SceneOptions):
    """Sizes, speeds and duration."""

    scene: ClassVar[str] = "soccer-twos"

    areas: int = option(8, "how many pitches there are")
    length: float = option(_ORIGINAL_LENGTH, "meters from goal to goal", small=10.0)
    width: float = option(15.0, "meters from side to side", small=6.0)
    goal: float = option(8.5, "meters between the posts", small=5.0)
    speed: float = option(2.0, "meters per second that an action adds in each physics step", small=0.6)
    kick: float = option(
        2000.0,
        "newtons with which a player that goes forward pushes the ball for one physics step",
        small=100.0,
    )
    max_steps: int = option(5000, "physics steps of an episode", small=1000, decision_period=DECISION_PERIOD)
    senses: str = senses_option(rays="ahead and behind", vector="places of everything")

    def check(self) -> None:
        """Refuse pitches on which players have no room."""
        least = 2 * (2 * PLAYER_RADIUS + 2 * BALL_RADIUS)
        if not 2 * BALL_RADIUS < self.goal < self.width < self.length or self.width < least:
            raise ValueError(
                f"soccer-twos: a pitch of {self.length:g} x {self.width:g} m with goals of "
                f"{self.goal:g} m; it must be longer than it is wide, at least {least:g} m wide, and goals "
                f"wider than the ball's {2 * BALL_RADIUS:g} m and narrower than the pitch."
            )


class SoccerTwos(SceneWorld[SoccerTwosOptions]):
    """Any number of pitches. Omitted options take the values of `size`."""

    options_type = SoccerTwosOptions
    parameters_read = ("ball_touch", "gravity")

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self.pitch = Pitch(options.length, options.width, options.goal)
        self.dynamics: SoccerDynamics = SoccerDynamics(areas, self.pitch, options.kick)
        self.heading: Array = np.zeros((areas, PLAYERS))
        """The players' headings, [areas, players], radians from z towards x."""
        self.teams = [AgentGroups(areas, MEMBERS, team, teams=2) for team in range(2)]
        self._agent_sets = self.teams
        self._sensors = SoccerSensors(areas, self.pitch)
        self._action: NDArray[np.int32] = np.zeros((areas, PLAYERS, 3), np.int32)
        self._touch_reward: Array = np.zeros(areas)
        self._decided: list[float] = []

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """A behavior for each team: three branches of 3, forward and back, sideways, turn."""
        actions = ActionSpec.create_discrete((3, 3, 3))
        return {
            name: BehaviorSpec(self._sensors.specs(self.options.senses, team), actions)
            for team, name in enumerate(BEHAVIORS)
        }

    def step(self, actions: Actions) -> Batches:
        """Play for one decision period. Actions: 3, 3 and 3 for each player."""
        for team, name in enumerate(BEHAVIORS):
            mine = slice(team * MEMBERS, (team + 1) * MEMBERS)
            self._action[:, mine] = actions[name][1].reshape(self.areas, MEMBERS, 3)
        for _ in range(DECISION_PERIOD):
            self._age += 1
            self._apply_rules(*self._act())
        return self._request_decisions()

    def statistics(self) -> Sequence[Statistic]:
        """Whether a goal or time has ended each episode that has ended."""
        return take_averages(DECIDED, self._decided)

    def _act(self) -> tuple[Flags, Array]:
        forward, side, turn = np.moveaxis(self._action, 2, 0)
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        ahead, right = np.where(side == 0, _FORWARD[forward], 0), _SIDE[side]
        push = np.stack([ahead * sine + right * cosine, ahead * cosine - right * sine])
        self.heading += _TURN[turn]
        # Forward kicks even where a sideways step replaces the forward step.
        return self.dynamics.step(push * self.options.speed, (forward == 1).astype(float))

    def _apply_rules(self, touched: Flags, in_goals: Array) -> None:
        """Pay for touches of the ball, and end what a goal or time ends."""
        if touched.any() and self._touch_reward.any():
            for number, team in enumerate(self.teams):
                mine = touched[:, number * MEMBERS : (number + 1) * MEMBERS]
                team.add_agent_rewards(mine * self._touch_reward[:, None])
        late = self._age >= self.options.max_steps
        goals = in_goals > 0
        if not (goals.any() or late.any()):
            return
        for loser in range(2):
            (which,) = np.nonzero(goals[loser])
            if len(which):
                won = np.zeros(self.areas)
                won[which] = 1 - self._age[which] / self.options.max_steps
                self.teams[1 - loser].add_reward(won)
                self.teams[loser].add_reward(-goals[loser].astype(float))
                self._end_episodes(which, interrupted=False)
        (which,) = np.nonzero(late & ~goals.any(axis=0))
        if len(which):
            self._end_episodes(which, interrupted=True)

    def _end_episodes(self, which: Indices, interrupted: bool) -> None:
        game = self.dynamics
        seen = self._sensors.peek(
            which,
            game.position[:, which],
            self.heading[which],
            game.velocity[:, which],
            self.options.senses,
        )
        for number, team in enumerate(self.teams):
            mine = slice(number * MEMBERS, (number + 1) * MEMBERS)
            team.end_episodes(which, [obs[:, mine] for obs in seen], interrupted)
            team.take_returns()
        self._decided += [0.0 if interrupted else 1.0] * len(which)
        self._start_episodes(which)

    def _start_episodes(self, which: Indices) -> None:
        """Put the players on their halves and the ball near the center."""
        random, count, options = self._random, len(which), self.options
        scale = options.length / _ORIGINAL_LENGTH
        places = np.zeros((2, count, PLAYERS + 1))
        side = np.repeat([-1.0, 1.0], MEMBERS)
        spread = random.uniform(-_START_SPREAD, _START_SPREAD, (count, PLAYERS))
        places[0, :, :PLAYERS] = scale * (_START * side + spread)
        places[1, :, :PLAYERS] = np.array([1, -1, 1, -1]) * _START_ASIDE * options.width
        places[:, :, BALL] = scale * random.uniform(-_BALL_SPREAD, _BALL_SPREAD, (2, count))
        self.dynamics.put(which, places)
        aside = np.radians(random.uniform(-_START_HEADING, _START_HEADING, (count, PLAYERS)))
        self.heading[which] = aside - side * np.pi / 2
        self._action[which] = 0
        self._age[which] = 0
        self._touch_reward[which] = _TOUCH_REWARD * np.array(
            [self._parameters.get("ball_touch", 0.0) for _ in range(count)]
        )
        self._sensors.clear(which)

    def _request_decisions(self) -> Batches:
        game = self.dynamics
        seen = self._sensors.observe(game.position, self.heading, game.velocity, self.options.senses)
        return {
            name: team.request_decisions([obs[:, number * MEMBERS : (number + 1) * MEMBERS] for obs in seen])
            for number, (name, team) in enumerate(zip(BEHAVIORS, self.teams))
        }
