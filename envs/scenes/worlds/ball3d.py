"""Unity's 3DBall: turn a box so that the ball stays on it.

The rules, numbers and order of events are those of the official scene, so that Unity's own brain works here.
"""

from collections.abc import Mapping

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ..parts.physics import GRAVITY, Array, Balls, Boxes, from_euler, rotations
from ..parts.sensors import vector_spec
from ..world import Actions, Batches, EndedAgents, Parameters, World, without_groups

BEHAVIOR = "3DBall?team=0"
HALF_BOX = 2.5
DECISION_PERIOD = 5
"""Physics steps for which an action is repeated."""
MAX_STEP = 5000
"""Physics steps after which an episode is interrupted: 1000 decisions."""

_DEGREES_PER_STEP = np.float32(2)
_TURN_LIMIT = 0.25
_START_TILT = 10.0
_START_OFFSET = 1.5
_START_HEIGHT = 4.0
_ANGULAR_DRAG = 0.01
_DIAMETER = 1.0
_LOWEST = (-3, -2, -3)
_HIGHEST = (3, np.inf, 3)
_ALIVE_REWARD = np.float32(0.1)
_FALL_REWARD = np.float32(-1)


class Ball3D(World):
    """Any number of independent areas, each a box that is the agent and its ball."""

    parameters_read = ("gravity", "scale", "mass")

    def __init__(self, areas: int = 12) -> None:
        """`areas`: how many boxes there are."""
        if areas < 1:
            raise ValueError(f"3DBall has {areas} areas; it needs at least 1.")
        self.areas = areas
        self.boxes = Boxes(areas, _TURN_LIMIT)
        self.balls = Balls(areas, HALF_BOX)
        self.balls.angular_drag = _ANGULAR_DRAG
        # Repeated for each ball: comparing arrays of the same shape is much cheaper than broadcasting.
        self._lowest = np.array(_LOWEST, np.float32).repeat(areas).reshape(3, areas)
        self._highest = np.array(_HIGHEST, np.float32).repeat(areas).reshape(3, areas)
        self._age = np.zeros(areas, np.int32)
        self._ids = np.arange(areas, dtype=np.int32)
        self._parameters = Parameters()
        self._revision = -1
        self._random = np.random.default_rng(0)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior: 8 floats and 2 continuous actions."""
        return {BEHAVIOR: BehaviorSpec([vector_spec(8)], ActionSpec.create_continuous(2))}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Start an episode in every area."""
        self._random, self._parameters, self._revision = random, parameters, -1
        self._apply_gravity()
        self._start_episodes(self._ids)
        self._age[:] = 0
        return {BEHAVIOR: without_groups(self._ids, [self._observe()], np.zeros(self.areas, np.float32))}

    def step(self, actions: Actions) -> Batches:
        """Turn and roll for one decision period. Actions: [areas, 2], clamped to -1 to 1."""
        if self._revision != self._parameters.revision:
            self._apply_gravity()
        degrees = np.minimum(np.maximum(actions[BEHAVIOR][0].T, -1), 1) * _DEGREES_PER_STEP
        self.boxes.command(degrees)
        reward = np.full(self.areas, _ALIVE_REWARD)
        ended: list[EndedAgents] = []
        late = int(self._age.max()) + DECISION_PERIOD >= MAX_STEP
        for k in range(DECISION_PERIOD):
            rotation = self.boxes.turn()
            done = self._fallen()
            if late:
                done |= self._age + k + 1 >= MAX_STEP
            if done.item(done.argmax()):
                (which,) = np.nonzero(done)
                ended.append(self._end_episodes(which))
                rotation[:, which] = rotations(self.boxes.quaternion[:, which])
                # Nothing is earned before the next action, and there is none after the period's last.
                reward[which] = _ALIVE_REWARD if k + 1 < DECISION_PERIOD else 0
                self._age[which] = -k - 1
            self.balls.step(rotation)
        self._age += DECISION_PERIOD
        return {BEHAVIOR: without_groups(self._ids, [self._observe()], reward, ended)}

    def _observe(self) -> Array:
        return _observe(self.boxes.quaternion, self.balls.motion)

    def _apply_gravity(self) -> None:
        """Gravity follows its parameter at once, also within an episode."""
        self._revision = self._parameters.revision
        self.balls.gravity = self._parameters.get("gravity", GRAVITY)

    def _fallen(self) -> NDArray[np.bool_]:
        position = self.balls.position
        outside = position < self._lowest
        outside |= position > self._highest
        fallen: NDArray[np.bool_] = outside[0] | outside[1] | outside[2]
        return fallen

    def _end_episodes(self, which: NDArray[np.intp]) -> EndedAgents:
        """The last observations of the agents `which`; starts their next episodes."""
        fallen = self._fallen()[which]
        end = EndedAgents(
            agent_id=self._ids[which],
            obs=[_observe(self.boxes.quaternion[:, which], self.balls.motion[:, which])],
            reward=np.where(fallen, _FALL_REWARD, _ALIVE_REWARD),
            interrupted=~fallen,
        )
        self._start_episodes(which)
        return end

    def _start_episodes(self, which: NDArray[np.intp] | NDArray[np.int32]) -> None:
        """Put box and ball of the areas `which` at their start; the ball's spin stays, as in the original."""
        draws = self._random.uniform(-1, 1, (len(which), 4)).astype(np.float32).T
        self.boxes.set(which, from_euler(draws[0] * _START_TILT, draws[1] * _START_TILT))
        motion = self.balls.motion
        motion[:, which] = 0
        motion[0, which] = draws[2] * _START_OFFSET
        motion[1, which] = _START_HEIGHT
        motion[2, which] = draws[3] * _START_OFFSET
        diameters = [self._parameters.get("scale", _DIAMETER) for _ in which]
        self.balls.set_radius(which, np.array(diameters, np.float32) / np.float32(2))


def _observe(quaternion: Array, motion: Array) -> Array:
    """Observations [n, 8]: the box's quaternion z and x, the ball's position and velocity."""
    obs = np.empty((motion.shape[1], 8), np.float32)
    obs[:, 0] = quaternion[2]
    obs[:, 1] = quaternion[0]
    obs[:, 2:] = motion.T
    return obs
