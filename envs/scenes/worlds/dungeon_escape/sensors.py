"""The sensors of DungeonEscape."""

from dataclasses import dataclass

import numpy as np

from ...physics2d import Array, Flags, Floats, RigidBody
from ...sensors import RaySensor, RayTargets, others, own_motion, rigid_body, seen_from
from ..push_block.dynamics import AGENT

TAGS = ("wall", "agent", "dragon", "key", "lock", "portal")
WALL, AGENT_TAG, DRAGON, KEY, LOCK, PORTAL = range(6)
HIDDEN = -1

COLUMN = RigidBody(half=0.75, mass=np.inf, square=True)
"""The original's columns stand at (+-4.5, +-4); their thickness is ours."""
DRAGON_RADIUS = 0.75
KEY_RADIUS = 0.5
PORTAL_RADIUS = 0.75
TOMB_RADIUS = 0.5
DOOR_HALF = (1.5, 0.3)
"""The door is in the center of the wall behind the dragon; place and width are ours."""


@dataclass(frozen=True, slots=True)
class DungeonView:
    """The state of some areas [k]."""

    position: Array
    """Of the agents [2, k, m], x and z; everything else is placed like this."""
    heading: Array
    """[k, m]."""
    velocity: Array
    """[2, k, m]."""
    alive: Flags
    """[k, m]."""
    has_key: Flags
    """[k, m]."""
    dragon: Array
    """[2, k]."""
    dragon_lives: Flags
    """[k]."""
    key: Array
    """[2, k], where it lies, if it does."""
    key_lies: Flags
    """[k]."""
    tomb: Array
    """[2, k], NaN where no agent died."""


class DungeonSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, members: int, half: float, columns: Array, door: Array, portal: Array) -> None:
        """`half`: half the edge of the ground. `columns`: [2, c]. `door`, `portal`: [2]."""
        self._members, self._half = members, half
        self._columns, self._door, self._portal = columns, door, portal
        self._others = others(members)
        self._rays = RaySensor(per_side=7, degrees=60, length=40, tags=len(TAGS))
        self.rays_size = self._rays.size
        self.places_size = 17 + 4 * (members - 1)

    def body(self, view: DungeonView) -> Floats:
        """Every agent's own pose and velocity: [k, m, 10]."""
        return rigid_body(view.position, view.heading, view.velocity)

    def rays(self, view: DungeonView) -> Floats:
        """One frame of the rays: [k, m, rays_size]."""
        count, columns = self._members, self._columns.shape[1]
        k = len(view.heading)
        circles = np.empty((3, k, count + 4))
        circles[:2, :, :count], circles[2, :, :count] = view.position, AGENT.half
        circles[:2, :, count], circles[2, :, count] = view.dragon, DRAGON_RADIUS
        circles[:2, :, count + 1], circles[2, :, count + 1] = view.key, KEY_RADIUS
        circles[:2, :, count + 2], circles[2, :, count + 2] = self._portal[:, None], PORTAL_RADIUS
        circles[:2, :, count + 3], circles[2, :, count + 3] = np.nan_to_num(view.tomb), TOMB_RADIUS
        boxes = np.empty((4, k, columns + 1))
        boxes[:2, :, :columns], boxes[2:, :, :columns] = self._columns[:, None], COLUMN.half
        boxes[:2, :, columns], boxes[2:, :, columns] = self._door[:, None], np.array(DOOR_HALF)[:, None]
        absent = np.zeros((k, count, count + 5 + columns), np.bool_)
        absent[:, :, :count] = ~view.alive[:, None] | np.eye(count, dtype=np.bool_)
        absent[:, :, count] = ~view.dragon_lives[:, None]
        absent[:, :, count + 1] = ~view.key_lies[:, None]
        absent[:, :, count + 3] = np.isnan(view.tomb[0])[:, None]
        circle_tags = np.array([*[AGENT_TAG] * count, DRAGON, KEY, PORTAL, HIDDEN])
        box_tags = np.array([*[WALL] * columns, LOCK])
        around = RayTargets(self._half, circles, circle_tags, boxes, box_tags, absent)
        return self._rays.observe(view.position, view.heading, around)

    def places(self, view: DungeonView) -> Floats:
        """The positions of everything in each agent's own frame: [k, m, places_size].

        Position (2) and heading (sine, cosine); velocity to the right and ahead (2); has the key (1); right
        and ahead of the door (2) and the portal (2); whether the dragon is there, right and ahead (3); the
        same of the key where it lies (3); for each teammate whether it lives, right, ahead, has the key (4).
        Places are shares of half the ground.
        """
        targets = np.empty((2, len(view.heading), 4 + self._members))
        targets[:, :, 0], targets[:, :, 1] = self._door[:, None], self._portal[:, None]
        targets[:, :, 2], targets[:, :, 3] = view.dragon, view.key
        targets[:, :, 4:] = view.position
        seen = seen_from(view.position, view.heading, targets) / self._half
        there = np.stack([view.dragon_lives, view.key_lies], axis=-1)[:, None]
        obs = np.empty((*view.heading.shape, self.places_size), np.float32)
        obs[..., :6] = own_motion(view.position / self._half, view.heading, view.velocity)
        obs[..., 6] = view.has_key
        obs[..., 7:11:2], obs[..., 8:11:2] = seen[..., :2]
        obs[..., 11:17:3] = there
        obs[..., 12:17:3], obs[..., 13:17:3] = seen[..., 2:4] * there
        if self._members > 1:
            near = seen[:, :, np.arange(self._members)[:, None], 4 + self._others]
            living = view.alive[:, self._others]
            obs[..., 17::4] = living
            obs[..., 18::4], obs[..., 19::4] = near * living
            obs[..., 20::4] = view.has_key[:, self._others] & living
        return obs
