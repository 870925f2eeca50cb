"""The sensors of SoccerTwos."""

import numpy as np
from mlagents_envs.base_env import ObservationSpec

from ...physics2d import Array, Floats, Indices
from ...sensors import FrameStack, RaySensor, own_motion, seen_from, to_circles, vector_spec
from .dynamics import BALL, BALL_RADIUS, GOAL_OF_TEAM, PLAYER_RADIUS, PLAYERS, Pitch

TAGS = ("ball", "own goal", "other goal", "wall", "own team", "other team")
FRAMES = 3
TEAMS = ("Blue", "Purple")

_LENGTH = 20.0
_RADIUS = 0.5
_TEAM = np.array([0, 0, 1, 1])
_OTHERS = np.array([[1, 2, 3], [0, 2, 3], [3, 0, 1], [2, 0, 1]])
"""For each player: its teammate, then the opponents."""
_PLACES = 26
_SPEED = 4.0
"""m/s that count as 1."""


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
        """The same for some areas [k], [k, players, size]; the frames stay as they are."""
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
