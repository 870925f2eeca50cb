"""Unity's DungeonEscape: one agent gives its life to the dragon, another carries the key to the door.

Rules, numbers and observations are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import AgentGroups
from ..parts.physics2d import (
    DECISION_PERIOD,
    GRAVITY,
    TIME_STEP,
    Array,
    Flags,
    Floats,
    Ground,
    Indices,
    RigidBody,
)
from ..parts.sensors import (
    FrameStack,
    RaySensor,
    RayTargets,
    others,
    own_motion,
    rigid_body,
    seen_from,
    vector_spec,
)
from ..world import Actions, Batches, Statistic
from .push_block import ACTIONS, AGENT, GRAVITY_SCALE, PushBlockMotion, RandomPlacement

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
    """The positions of the agents [2, k, m], x and z; everything else is placed like this."""
    heading: Array
    """The headings of the agents, [k, m]."""
    velocity: Array
    """The velocities of the agents, [2, k, m]."""
    alive: Flags
    """Which agents live, [k, m]."""
    has_key: Flags
    """Which agents have the key, [k, m]."""
    dragon: Array
    """The positions of the dragons, [2, k]."""
    dragon_lives: Flags
    """Which dragons live, [k]."""
    key: Array
    """The positions of the keys that lie on the ground, [2, k]."""
    key_lies: Flags
    """Which keys lie on the ground, [k]."""
    tomb: Array
    """The positions of the tombs, [2, k]; NaN where no agent died."""


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
        """One frame of the rays, [k, m, rays_size]."""
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


BEHAVIOR = "DungeonEscape?team=0"
COLUMN_PLACES = np.array([[-4.5, 4.5, -4.5, 4.5], [-4, -4, 4, 4]])
_ORIGINAL_GROUND = 25.0
_DRAGON_START = 8.0
_PORTAL_FROM_WALL = 0.9
_TOUCH = 0.02
"""The contact offsets of colliders, in meters."""
_FRAMES = 3
_LEAST_GROUND = 8.0
"""The least edge of the ground, in meters: on a smaller one, agents could start in the portal."""
_SHARE, _COLUMN_SHARE = 3.0, 5.0
"""Square meters of the central region, where agents start, per agent and per column: found by trial, so that
no bodies overlap at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DungeonEscapeOptions(SceneOptions):
    """Sizes, speeds and duration."""

    scene: ClassVar[str] = "dungeon-escape"

    areas: int = option(12, "how many areas there are")
    agents: int = option(3, "of an area")
    ground: float = option(_ORIGINAL_GROUND, "meters along each edge of the ground", small=10.0)
    columns: int = option(4, "at most 4", small=0, may_be_zero=True)
    speed: float = option(3.0, "meters per second that an action adds in each physics step", small=0.75)
    dragon_slow: float = option(1.0, "the dragon's lowest speed, meters per second", small=0.5)
    dragon_fast: float = option(7.0, "the dragon's highest speed, meters per second", small=1.5)
    room: float = option(2.5, "free meters around whatever is placed at the start of an episode", small=0.6)
    max_steps: int = option(15000, "physics steps of an episode", small=1500, decision_period=DECISION_PERIOD)
    senses: str = senses_option(rays="rays, the own body, the key", vector="places of everything")

    def check(self) -> None:
        """Refuse grounds without room, and dragons whose speeds are in the wrong order."""
        if self.columns > COLUMN_PLACES.shape[1] or self.dragon_slow > self.dragon_fast:
            raise ValueError(
                f"dungeon-escape has {self.columns} columns (at most 4) and a dragon of "
                f"{self.dragon_slow} to {self.dragon_fast} m/s (slow must not be above fast)."
            )
        middle = _SHARE * self.agents + _COLUMN_SHARE * self.columns
        least = max(_LEAST_GROUND, 2 * np.sqrt(middle))
        if self.ground < least:
            raise ValueError(
                f"dungeon-escape: a ground of {self.ground:g} m has no room for {self.agents} agents, "
                f"{self.columns} columns, dragon and portal; it must have at least {np.ceil(least):g} m."
            )


class DungeonEscape(SceneWorld[DungeonEscapeOptions]):
    """Any number of areas, each a group of agents and a dragon. Omitted options take the values of `size`."""

    options_type = DungeonEscapeOptions
    parameters_read = ()

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        self._make_dungeon()

    def _make_dungeon(self) -> None:
        """Create the ground and everything on it."""
        options, areas = self.options, self.areas
        half, count = options.ground / 2, options.agents
        scale = options.ground / _ORIGINAL_GROUND
        self.columns: Array = COLUMN_PLACES[:, : options.columns] * scale
        self.portal: Array = np.array([half - _PORTAL_FROM_WALL, -half + _PORTAL_FROM_WALL])
        self.door: Array = np.array([0, half])
        self.bodies = Ground(
            areas, half, [AGENT] * count + [COLUMN] * options.columns, GRAVITY * GRAVITY_SCALE
        )
        self.motion_control = PushBlockMotion(areas, count, options.speed)
        self.groups = AgentGroups(areas, count)
        self._agent_sets = [self.groups]
        self.dragon: Array = np.zeros((2, areas))
        self.dragon_lives: NDArray[np.bool_] = np.ones(areas, np.bool_)
        self.key: Array = np.zeros((2, areas))
        self.key_lies: NDArray[np.bool_] = np.zeros(areas, np.bool_)
        self.has_key: NDArray[np.bool_] = np.zeros((areas, count), np.bool_)
        self.tomb: Array = np.full((2, areas), np.nan)
        """Where the dragon killed an agent, [2, areas]; NaN where it did not."""
        self.turned = np.zeros(areas, np.intp)
        """Quarter turns of each area in the world; agents do not notice."""
        self._start = np.array([0, _DRAGON_START * scale])
        way = self.portal - self._start
        self._dragon_way = float(np.hypot(*way))
        self._dragon_heading = way / self._dragon_way
        self._dragon_speed = np.zeros(areas)
        self._dragon_walked = np.zeros(areas)
        columns_taken = np.vstack([self.columns, np.full(options.columns, COLUMN.half)])
        dragon_taken = np.array([[*self._start, DRAGON_RADIUS]]).T
        taken = np.hstack([dragon_taken, columns_taken])
        self._placement = RandomPlacement(half / 2, options.room, [AGENT.half] * count, taken, [half] * count)
        self._sensors = DungeonSensors(count, half, self.columns, self.door, self.portal)
        self._frames = FrameStack(areas, count, _FRAMES, self._sensors.rays_size)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior of one branch of 7."""
        rays = f"StackingSensor_size{_FRAMES}_RayPerceptionSensor"
        observations = [
            vector_spec(10, "PhysicsBodySensor:Agent"),
            vector_spec(_FRAMES * self._sensors.rays_size, rays),
            vector_spec(1),
        ]
        if self.options.senses == "vector":
            observations = [vector_spec(self._sensors.places_size)]
        return {BEHAVIOR: BehaviorSpec(observations, ACTIONS)}

    def step(self, actions: Actions) -> Batches:
        """Walk for one decision period. Actions: one of 7 for each agent."""
        self.motion_control.command(self.groups.asking, actions[BEHAVIOR][1][:, 0])
        for _ in range(DECISION_PERIOD):
            self.motion_control.turn()
            self.bodies.step(self.motion_control.push)
            self._age += 1
            self._walk_dragon()
            self._apply_rules()
            late = self._age >= self.options.max_steps
            if late.any():
                self._end_episodes(late, interrupted=True)
        return self._request_decisions()

    def statistics(self) -> Sequence[Statistic]:
        """The returns of the groups whose episodes ended."""
        return self.groups.take_returns()

    def _walk_dragon(self) -> None:
        self._dragon_walked += self._dragon_speed * TIME_STEP
        self.dragon[:] = self._start[:, None] + self._dragon_heading[:, None] * self._dragon_walked
        escaped = self._dragon_walked >= self._dragon_way
        if escaped.any():
            self._end_episodes(escaped)

    def _apply_rules(self) -> None:
        """Apply what touches cause. If two agents touch the same thing at once, the first counts."""
        touches = self._touches()
        if not touches.any():
            return
        dragon, key, door, portal = touches
        over = self._meet_dragon(dragon)
        # What appears in this step can be touched in the next, when the physics reports it.
        areas, members = _first(key)
        self.has_key[areas, members] = True
        self.key_lies[areas] = False
        escaped = (door & self.has_key & self.groups.alive).any(axis=1)
        if escaped.any():
            self.groups.add_reward(escaped.astype(float))
            self._end_episodes(escaped)
            over |= escaped
        self._use_portal(portal & self.groups.alive & ~over[:, None])

    def _touches(self) -> NDArray[np.bool_]:
        """Which agents touch the dragon, the key, the door, the portal: [4, areas, agents]."""
        position = self.bodies.pose[:2, :, : self.options.agents]
        targets = np.empty((4, *position.shape))
        targets[0], targets[1] = self.dragon[..., None], self.key[..., None]
        targets[2] = self.door[:, None, None]
        targets[3] = self.portal[:, None, None]
        away = np.abs(position - targets)
        # A door is a box: what counts is the way to its surface.
        away[2] -= np.array(DOOR_HALF)[:, None, None]
        np.maximum(away[2], 0, out=away[2])
        reach = AGENT.half + _TOUCH + np.array([DRAGON_RADIUS, KEY_RADIUS, 0, PORTAL_RADIUS])
        touches: NDArray[np.bool_] = np.hypot(away[:, 0], away[:, 1]) <= reach[:, None, None]
        touches &= self.groups.alive
        touches[0] &= self.dragon_lives[:, None]
        touches[1] &= self.key_lies[:, None]
        return touches

    def _meet_dragon(self, dragon: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Let agents that touch the dragon die with it, which leaves the key; return which episodes end."""
        areas, members = _first(dragon)
        self.key[:, areas] = self.dragon[:, areas]
        self.key_lies[areas] = True
        self.dragon_lives[areas] = False
        self._dragon_speed[areas] = 0
        self.tomb[:, areas] = self.bodies.pose[:2, areas, members]
        if len(areas):
            self._remove(areas, members)
        over: NDArray[np.bool_] = ~np.asarray(self.groups.alive.any(axis=1))
        self._end_episodes(over)
        return over

    def _use_portal(self, portal: NDArray[np.bool_]) -> None:
        """Agents that touch the portal are out; with the key, or as the last, they end the episode."""
        if not portal.any():
            return
        with_key = (portal & self.has_key).any(axis=1)
        over = np.logical_or(with_key, ~(self.groups.alive & ~portal).any(axis=1))
        areas, members = np.nonzero(portal)
        self._remove(areas, members)
        self._end_episodes(over)

    def _remove(self, areas: Indices, members: Indices) -> None:
        seen = self._observe(areas)
        rows = np.arange(len(areas))
        self.groups.remove(areas, members, [obs[rows, members] for obs in seen])
        self.bodies.remove(areas, members)
        self.motion_control.stop(areas, members)

    def _end_episodes(self, over: NDArray[np.bool_], interrupted: bool = False) -> None:
        """End the groups' episodes where `over` [areas], and start the next ones."""
        (which,) = np.nonzero(over)
        if len(which):
            self.groups.end_episodes(which, self._observe(which), interrupted)
            self._start_episodes(which)

    def _start_episodes(self, which: Indices) -> None:
        options, count = self.options, self.options.agents
        pose = np.zeros((3, len(which), self.bodies.shape[1]))
        pose[:2, :, :count] = self._placement.sample(self._random, len(which))
        pose[:2, :, count:] = self.columns[:, None]
        self.bodies.put(which, pose)
        self.motion_control.heading[which] = self._random.uniform(-np.pi, np.pi, (len(which), count))
        self.motion_control.stop(which)
        self.turned[which] = self._random.integers(4, size=len(which))
        self._dragon_speed[which] = self._random.uniform(options.dragon_slow, options.dragon_fast, len(which))
        self._dragon_walked[which] = 0
        self.dragon[:, which] = self._start[:, None]
        self.dragon_lives[which] = True
        self.key_lies[which] = False
        self.has_key[which] = False
        self.tomb[:, which] = np.nan
        self._frames.clear(which)
        self._age[which] = 0

    def _request_decisions(self) -> Batches:
        view = self._view(slice(None))
        if self.options.senses == "vector":
            obs = [self._sensors.places(view)]
        else:
            obs = self._sense(view, self._frames.push(self._sensors.rays(view)))
        return {BEHAVIOR: self.groups.request_decisions(obs)}

    def _observe(self, areas: Indices) -> list[Floats]:
        """The observations of all agents of these areas at the end of an episode."""
        view = self._view(areas)
        if self.options.senses == "vector":
            return [self._sensors.places(view)]
        return self._sense(view, self._frames.peek(areas, self._sensors.rays(view)))

    def _sense(self, view: DungeonView, rays: Floats) -> list[Floats]:
        return [self._sensors.body(view), rays, view.has_key[..., None].astype(np.float32)]

    def _view(self, areas: Indices | slice) -> DungeonView:
        count = self.options.agents
        return DungeonView(
            position=self.bodies.pose[:2, areas, :count],
            heading=self.motion_control.heading[areas],
            velocity=self.bodies.motion[:2, areas, :count],
            alive=self.groups.alive[areas],
            has_key=self.has_key[areas],
            dragon=self.dragon[:, areas],
            dragon_lives=self.dragon_lives[areas],
            key=self.key[:, areas],
            key_lies=self.key_lies[areas],
            tomb=self.tomb[:, areas],
        )


def _first(touching: NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """The first touching agent of each area [areas, agents] that has one."""
    (areas,) = np.nonzero(touching.any(axis=1))
    return areas, touching[areas].argmax(axis=1)
