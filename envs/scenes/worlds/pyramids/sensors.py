"""The sensors of Pyramids."""

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import ObservationSpec

from ...physics2d import Array, Flags, Floats
from ...sensors import RaySensor, RayTargets, own_motion, seen_from, vector_spec

TAGS = ("block", "wall", "goal", "switchOff", "switchOn", "stone")
BLOCK, WALL, GOLD, SWITCH_OFF, SWITCH_ON, STONE = range(len(TAGS))

WALL_HEIGHT, STONE_HEIGHT, PYRAMID_HEIGHT, GOLD_TOP, SWITCH_HEIGHT, BRICK = 5.0, 4.0, 3.0, 5.9, 3.8, 1.0
"""Meters beyond which the rising rays of the recorded demonstration never saw a thing."""
LOOSE_BRICKS = 4
"""Bricks of a fallen pyramid that can be seen."""

_FANS = ((70.0, 0.0), (65.0, 5.0), (75.0, 10.0))
"""Degrees on either side, and meters by which the rays rise over their length."""
_PER_SIDE = 3
_LENGTH = 35.0
_RADIUS = 0.5
_VECTOR = 4
_PLACES = 15


@dataclass(frozen=True, slots=True)
class PyramidsView:
    """The state of some areas [k]."""

    position: Array
    """[2, k], of the agents: x and z, like every place here."""
    velocity: Array
    """[2, k]."""
    heading: Array
    """[k]."""
    stones: Array
    """[4, k, s], boxes."""
    switch: Array
    """[4, k], a box."""
    switched: Flags
    """[k], whether it is on."""
    pyramid: Array
    """[4, k], a box."""
    stands: Flags
    """[k], whether the pyramid does."""
    gold: Array
    """[4, k], a box; on the pyramid or on the ground."""
    bricks: Array
    """[2, k, LOOSE_BRICKS], of a pyramid that fell."""


class PyramidsSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, walls: Array, half: float, stones: int) -> None:
        """`walls`: [4, w], boxes. `half`: half the edge of all rooms. `stones`: how many."""
        self._walls, self._half = walls, half
        self._fans = [RaySensor(_PER_SIDE, degrees, _LENGTH, len(TAGS), _RADIUS) for degrees, _ in _FANS]
        count = walls.shape[1]
        self._box_tags = np.array([*[WALL] * count, *[STONE] * stones, SWITCH_OFF, SWITCH_ON, BLOCK, GOLD])
        heights = [WALL_HEIGHT] * count + [STONE_HEIGHT] * stones + [SWITCH_HEIGHT] * 2 + [PYRAMID_HEIGHT]
        heights = [BRICK] * LOOSE_BRICKS + heights
        # Rays start half a meter above the ground, in the center of a sphere of that radius.
        self._farthest = [
            None if rise == 0 else np.array([*heights, np.nan]) * _LENGTH / rise for _, rise in _FANS
        ]
        self._rises = [rise for _, rise in _FANS]

    def specs(self, senses: str) -> list[ObservationSpec]:
        """Three fans of rays and a vector of 4, or the places of everything."""
        if senses == "vector":
            return [vector_spec(_PLACES)]
        names = ("RayPerceptionSensor", "RayPerceptionSensor1", "RayPerceptionSensor2")
        return [
            *(vector_spec(fan.size, name) for name, fan in zip(names, self._fans)),
            vector_spec(_VECTOR),
        ]

    def observe(self, view: PyramidsView, senses: str) -> list[Floats]:
        """Every sensor, [k, size] each."""
        return [self.places(view)] if senses == "vector" else [*self.rays(view), self.vector(view)]

    def vector(self, view: PyramidsView) -> Floats:
        """Whether the switch is on, and the own velocity to the right, up and ahead: [k, 4]."""
        obs = np.zeros((len(view.heading), _VECTOR), np.float32)
        motion = own_motion(view.position[..., None], view.heading[:, None], view.velocity[..., None])[:, 0]
        obs[:, 0] = view.switched
        obs[:, 1], obs[:, 3] = 4 * motion[:, 4], 4 * motion[:, 5]
        return obs

    def rays(self, view: PyramidsView) -> list[Floats]:
        """The three fans, from the level one to the steepest: [k, 56] each."""
        around = self._around(view)
        position, heading = view.position[..., None], view.heading[:, None]
        seen = []
        for fan, farthest, rise in zip(self._fans, self._farthest, self._rises):
            if farthest is not None:
                reach = np.tile(farthest, (len(view.heading), 1, 1))
                reach[:, 0, -1] = np.where(view.stands, GOLD_TOP, BRICK) * _LENGTH / rise
                around = _with_reach(around, reach)
            seen.append(fan.observe(position, heading, around)[:, 0])
        return seen

    def places(self, view: PyramidsView) -> Floats:
        """The positions of everything in each agent's own frame: [k, 15].

        Position (2), heading (sine, cosine), velocity to the right and ahead / 4 (2); whether the switch is
        on (1), right and ahead of it (2); whether the pyramid stands, right and ahead (3); whether the gold
        brick lies on the ground, right and ahead (3). Places are shares of half of all rooms; what is not
        there is all 0.
        """
        obs = np.empty((len(view.heading), _PLACES), np.float32)
        position, heading = view.position[..., None], view.heading[:, None]
        obs[:, :6] = own_motion(position / self._half, heading, view.velocity[..., None])[:, 0]
        targets = np.stack([view.switch[:2], view.pyramid[:2], view.gold[:2]], axis=2)
        right, ahead = seen_from(position, heading, targets)[:, :, 0] / self._half
        there = np.stack([np.ones_like(view.stands), view.stands, view.switched & ~view.stands], axis=1)
        obs[:, 6], obs[:, 9], obs[:, 12] = view.switched, there[:, 1], there[:, 2]
        obs[:, 7::3], obs[:, 8::3] = right * there, ahead * there
        return obs

    def _around(self, view: PyramidsView) -> RayTargets:
        k = len(view.heading)
        walls = np.broadcast_to(self._walls[:, None], (4, k, self._walls.shape[1]))
        single = np.stack([view.switch, view.switch, view.pyramid, view.gold], axis=2)
        boxes = np.concatenate([walls, view.stones, single], axis=2)
        bricks = np.full((3, k, LOOSE_BRICKS), BRICK / 2)
        bricks[:2] = view.bricks
        absent = np.zeros((k, 1, LOOSE_BRICKS + boxes.shape[2]), np.bool_)
        fell = view.switched & ~view.stands
        absent[:, 0, :LOOSE_BRICKS] = ~fell[:, None]
        absent[:, 0, -4], absent[:, 0, -3] = view.switched, ~view.switched
        absent[:, 0, -2], absent[:, 0, -1] = ~view.stands, ~view.switched
        tags = np.full(LOOSE_BRICKS, BLOCK)
        return RayTargets(np.inf, bricks, tags, boxes, self._box_tags, absent)


def _with_reach(around: RayTargets, farthest: Array) -> RayTargets:
    return RayTargets(
        around.half,
        around.circles,
        around.circle_tags,
        around.boxes,
        around.box_tags,
        around.absent,
        farthest,
    )
