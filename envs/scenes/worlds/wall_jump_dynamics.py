"""The platform of WallJump: agents that run, jump and push a block in front of a wall.

Everything is a box along the axes, the agent too, however it is turned. Positions are [3, n]: x, y (up) and
z; the platform's upper side is at y = 0, and the wall's center at z = 0.
"""

import numpy as np

from ..parts.physics2d import FRICTION, GRAVITY, TIME_STEP, Array, Flags, Indices

AGENT_HALF = 0.5
BLOCK_HALF = 1.5
BLOCK_HEIGHT = 2.0
WALL_HALF = 0.75
GRAVITY_SCALE = 2.75
JUMP_HEIGHT = 2.75
JUMP_STEPS = 10
"""The number of physics steps of a jump, 0.2 s."""

_AGENT_MASS, _BLOCK_MASS = 25.0, 10.0
_AGENT_DRAG, _BLOCK_DRAG = 2.0, 1.0
_EXTRA_FALL = 111.0
"""The acceleration, m/s², that is added to gravity in the air, after a jump."""
_PULL = 15.5
"""Meters per second for each meter that a jump still has to go; stiffness and limit are ours."""
_PULL_LIMIT = 10.0
"""Meters per second by which a jump changes the velocity at most in a physics step."""
_NEAR_GROUND, _ON_GROUND = 0.55, 0.05
"""Meters below an agent's underside in which the ground counts for a jump, and for running."""
_REACH = AGENT_HALF + BLOCK_HALF
_TINY = 1e-9


class WallJumpDynamics:
    """One agent, one block and one wall on each of n platforms."""

    def __init__(self, count: int) -> None:
        self.position: Array = np.zeros((3, count))
        """The positions of the agents' centers, [3, n]."""
        self.velocity: Array = np.zeros((3, count))
        self.block: Array = np.zeros((2, count))
        """The positions x and z of the blocks, [2, n]."""
        self.block_velocity: Array = np.zeros((2, count))
        self.wall: Array = np.zeros(count)
        """The heights of the walls' upper edges above the platform, [n], meters; 0 for no wall."""
        self.gravity = GRAVITY * GRAVITY_SCALE
        self._jump_left = np.zeros(count, np.intp)
        self._jump_from = np.zeros(count)

    def put(self, which: Indices, agents: Array, blocks: Array, wall: Array) -> None:
        """Put agents [2, k] and blocks [2, k], x and z, at rest on the platform; walls of heights [k]."""
        self.position[0, which], self.position[2, which] = agents
        self.position[1, which] = AGENT_HALF
        self.velocity[:, which] = 0
        self.block[:, which] = blocks
        self.block_velocity[:, which] = 0
        self.wall[which] = wall
        self._jump_left[which] = 0

    def near_ground(self) -> Flags:
        """Whether an agent is so near to something below its center that it can jump, [n]."""
        return self._gap(0) < _NEAR_GROUND

    def run(self, direction: Array, speed: float, jump: Flags) -> None:
        """Apply the agents' actions before a physics step.

        Args:
            direction: [2, n], where they run, x and z.
            speed: Meters per second that this adds on the ground; half of it in the air.
            jump: [n], whether the action is a jump; it starts if the agent is near the ground.
        """
        grounded = self._gap(AGENT_HALF) < _ON_GROUND
        begin = jump & (self._jump_left == 0) & self.near_ground()
        self._jump_from[begin] = self.position[1, begin]
        self._jump_left[begin] = JUMP_STEPS
        way = direction * np.where(grounded, 1.0, 0.5)
        self.velocity[::2] += way * speed
        jumping = self._jump_left > 0
        (who,) = np.nonzero(jumping)
        if len(who):
            up = self._jump_from[who] + JUMP_HEIGHT - self.position[1, who]
            wanted = _PULL * np.stack([way[0, who], up, way[1, who]]) - self.velocity[:, who]
            length = np.sqrt((wanted**2).sum(axis=0))
            self.velocity[:, who] += wanted * np.minimum(1, _PULL_LIMIT / np.maximum(length, _TINY))
        self.velocity[1] -= np.where(jumping | grounded, 0, _EXTRA_FALL * TIME_STEP)
        self._jump_left[jumping] -= 1

    def step(self) -> None:
        """Make one physics step."""
        self.velocity[1] -= self.gravity * TIME_STEP
        self.velocity *= 1 - _AGENT_DRAG * TIME_STEP
        self._rub()
        self.block_velocity *= 1 - _BLOCK_DRAG * TIME_STEP
        before = self.position[::2].copy()
        self.position[::2] += self.velocity[::2] * TIME_STEP
        self.block += self.block_velocity * TIME_STEP
        self._meet_block(before)
        self._meet_wall(before[1])
        self.position[1] += self.velocity[1] * TIME_STEP
        # An agent that has sunk into what is below stands on it.
        gap = self._gap(AGENT_HALF)
        self.position[1] -= np.minimum(gap, 0)
        self.velocity[1] = np.where(gap < 0, np.maximum(self.velocity[1], 0), self.velocity[1])

    def _gap(self, half: float) -> Array:
        """Meters from an agent's underside down to what is below it, within `half` of its center: [n]."""
        x, y, z = self.position
        away = np.maximum(np.abs(x - self.block[0]), np.abs(z - self.block[1]))
        floor = np.where(away < half + BLOCK_HALF - _TINY, BLOCK_HEIGHT, 0.0)
        over_wall = np.abs(z) < half + WALL_HALF - _TINY
        gap: Array = y - AGENT_HALF - np.maximum(floor, np.where(over_wall, self.wall, 0.0))
        return gap

    def _rub(self) -> None:
        """Apply the friction of what an agent stands on. The block's height is held: it does not rub."""
        grip = np.where(self._gap(AGENT_HALF) < _TINY, FRICTION * self.gravity * TIME_STEP, 0)
        speed = np.hypot(self.velocity[0], self.velocity[2])
        self.velocity[::2] *= 1 - np.minimum(grip / np.maximum(speed, _TINY), 1)

    def _meet_block(self, before: Array) -> None:
        """An agent beside its block pushes it: both go on with the same speed in that direction."""
        away = self.position[::2] - self.block
        beside = self.position[1] - AGENT_HALF < BLOCK_HEIGHT - _ON_GROUND
        (who,) = np.nonzero(beside & (np.abs(away).max(axis=0) < _REACH))
        if not len(who):
            return
        # The side from which it came: along which they were farther apart.
        axis = np.abs(before[:, who] - self.block[:, who]).argmax(axis=0)
        side = np.where(before[axis, who] < self.block[axis, who], -1.0, 1.0)
        own, other = self.velocity[2 * axis, who], self.block_velocity[axis, who]
        common = (_AGENT_MASS * own + _BLOCK_MASS * other) / (_AGENT_MASS + _BLOCK_MASS)
        touching = (own - other) * side < 0
        self.velocity[2 * axis, who] = np.where(touching, common, own)
        self.block_velocity[axis, who] = np.where(touching, common, other)
        self.block[axis, who] = self.position[2 * axis, who] - side * _REACH
        # A block at the wall stays there, and so does the agent that pushes it.
        limit = WALL_HALF + BLOCK_HALF
        z = self.block[1, who]
        stopped = (self.wall[who] > 0) & (np.abs(z) < limit)
        who, axis, side = who[stopped], axis[stopped], side[stopped]
        self.block[1, who] = np.copysign(limit, z[stopped])
        self.block_velocity[1, who] = 0
        along = who[axis == 1]
        self.position[2, along] = self.block[1, along] + side[axis == 1] * _REACH
        self.velocity[2, along] = 0

    def _meet_wall(self, before: Array) -> None:
        """Stop agents at the wall; `before`: [n], their z a step ago."""
        limit = WALL_HALF + AGENT_HALF
        low = self.position[1] - AGENT_HALF < self.wall - _ON_GROUND
        (who,) = np.nonzero(low & (np.abs(self.position[2]) < limit))
        self.position[2, who] = np.copysign(limit, before[who])
        self.velocity[2, who] = 0
        free = WALL_HALF + BLOCK_HALF
        (who,) = np.nonzero((self.wall > 0) & (np.abs(self.block[1]) < free))
        self.block[1, who] = np.copysign(free, self.block[1, who])
        self.block_velocity[1, who] = 0
