"""Unity's Pyramids: find the switch, and the gold brick on the pyramid that it builds somewhere else.

Nothing but the gold brick is rewarded, and nothing shows where switch and pyramid are: a task for curiosity.
Numbers, sensors and rewards are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, ObservationSpec

from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import IndependentAgents
from ..parts.physics2d import DECISION_PERIOD, Array, Flags, Floats, Indices
from ..parts.sensors import RaySensor, RayTargets, own_motion, seen_from, vector_spec
from ..world import Actions, Batches
from .pyramids_dynamics import RADIUS, PyramidsDynamics, Rooms

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


BEHAVIOR = "Pyramids?team=0"

_GOLD = 2.0
"""What the gold brick pays."""
_TOUCH = 0.02
"""Meters: colliders' contact offsets."""
_STONE_HALF, _SWITCH_HALF, _PYRAMID_HALF, _BRICK_HALF = 1.5, 0.75, 1.5, 0.5
"""Half the edges; ours."""
_LEAST_ROOM = 6.0
_SCATTER = 3.0
"""Meters within which the bricks of a pyramid fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidsOptions(SceneOptions):
    """Sizes, speeds and duration."""

    scene: ClassVar[str] = "pyramids"

    areas: int = option(16, "how many areas there are")
    rooms: int = option(3, "along each edge of an area", small=2)
    room: float = option(25.0, "meters along each edge of a room", small=8.0)
    wall: float = option(5.0, "meters of the walls between rooms", small=1.0)
    door: float = option(18.0, "meters of the doorways in their middles", small=3.0)
    clear: float = option(0.6, "meters from a room's walls within which nothing is placed", small=1.9)
    stone_blocks: int = option(6, "pyramids of stone, each in a room of its own", small=0, may_be_zero=True)
    speed: float = option(2.0, "meters per second that an action adds in each physics step", small=1.0)
    knock: float = option(5.0, "meters per second at which a pyramid falls that is run into", small=10.0)
    max_steps: int = option(5000, "physics steps of an episode", small=1500, decision_period=DECISION_PERIOD)
    senses: str = senses_option(rays="three fans of rays and the own velocity", vector="places of everything")

    def check(self) -> None:
        """Refuse areas in which things have no place."""
        needed, found = self.stone_blocks + 3, self.rooms**2
        if found < needed:
            raise ValueError(
                f"pyramids: {self.rooms} x {self.rooms} rooms are fewer than the {needed} that an agent, a "
                f"switch, a pyramid and {self.stone_blocks} stone-blocks need, one to each."
            )
        if self.room < _LEAST_ROOM or not 2 * RADIUS < self.door <= self.room:
            raise ValueError(
                f"pyramids: a room of {self.room:g} m with doorways of {self.door:g} m; rooms must have at "
                f"least {_LEAST_ROOM:g} m, and doorways more than {2 * RADIUS:g} m and not more than a room."
            )
        if 2 * self.clear > self.room:
            raise ValueError(
                f"pyramids: with {self.clear:g} m clear of the walls a room of {self.room:g} m has no "
                "place left; clear must be at most half of the room."
            )


class Pyramids(SceneWorld[PyramidsOptions]):
    """Any number of areas, one agent to each. Omitted options take the values of `size`."""

    options_type = PyramidsOptions
    parameters_read = ()

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self.rooms = Rooms(options.rooms, options.room, options.wall, options.door)
        self.walls = self.rooms.walls
        self.dynamics: PyramidsDynamics = PyramidsDynamics(areas, options.speed)
        self.agents = IndependentAgents(areas)
        self._agent_sets = [self.agents]
        count, stones = self.walls.shape[1], options.stone_blocks
        self.stones = slice(count, count + stones)
        self.switch, self.pyramid, self.gold = count + stones, count + stones + 1, count + stones + 2
        """Where in `boxes` things are; the walls come first."""
        self.boxes: Array = np.zeros((4, areas, count + stones + 3))
        """All that stands in each area [4, areas, n]: center x, z, half the edges."""
        self.boxes[:, :, :count] = self.walls[:, None]
        self.boxes[2:, :, self.stones] = _STONE_HALF
        self.boxes[2:, :, self.switch] = _SWITCH_HALF
        self.boxes[2:, :, self.pyramid] = _PYRAMID_HALF
        self.boxes[2:, :, self.gold] = _BRICK_HALF
        self._there: Flags = np.ones(self.boxes.shape[1:], np.bool_)
        # The gold brick is no obstacle: touching it ends the episode.
        self._there[:, self.gold] = False
        self.switched: Flags = np.zeros(areas, np.bool_)
        """[areas], whether the switch is on."""
        self.bricks: Array = np.zeros((2, areas, LOOSE_BRICKS))
        """Where the bricks of pyramids that fell lie."""
        self._sensors = PyramidsSensors(self.walls, self.rooms.half, stones)

    @property
    def stands(self) -> Flags:
        """[areas], whether the pyramid does."""
        return self._there[:, self.pyramid]

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior of one branch of 5: nothing, forward, back, turn right, turn left."""
        return {
            BEHAVIOR: BehaviorSpec(self._sensors.specs(self.options.senses), ActionSpec.create_discrete((5,)))
        }

    def step(self, actions: Actions) -> Batches:
        """Walk for one decision period. Actions: [areas, 1], one of 5."""
        self.dynamics.command(actions[BEHAVIOR][1][:, 0])
        for _ in range(DECISION_PERIOD):
            hits = self.dynamics.step(self.boxes, self._there)
            self._age += 1
            self.agents.add_reward(-1 / self.options.max_steps)
            self._press()
            self._knock(*hits)
            self._apply_rules()
        return self._request_decisions()

    def _press(self) -> None:
        """The first touch of the switch builds the pyramid, with the gold brick on it."""
        touched = self._touches(self.switch) & ~self.switched
        self.switched |= touched
        self._there[touched, self.pyramid] = True

    def _knock(self, areas: Indices, boxes: Indices, speeds: Array) -> None:
        """Pyramids that are run into fall: the gold brick then lies beyond them, other bricks around."""
        falls = (boxes == self.pyramid) & (speeds >= self.options.knock)
        if not falls.any():
            return
        which = np.unique(areas[falls])
        self._there[which, self.pyramid] = False
        middle = self.boxes[:2, which, self.pyramid]
        way = middle - self.dynamics.position[:, which]
        thrown = middle + way / np.maximum(np.hypot(way[0], way[1]), 1e-9) * _PYRAMID_HALF
        # Not into a wall: a room's center is where the room is.
        room = self._room_of(middle)
        reach = self.options.room / 2 - 2 * RADIUS
        self.boxes[:2, which, self.gold] = room + np.minimum(np.maximum(thrown - room, -reach), reach)
        scattered = self._random.uniform(-_SCATTER, _SCATTER, (2, len(which), LOOSE_BRICKS))
        self.bricks[:, which] = middle[:, :, None] + scattered

    def _room_of(self, place: Array) -> Array:
        """The centers [2, k] of the rooms in which places [2, k] are."""
        step, last = self.options.room + self.options.wall, (self.options.rooms - 1) / 2
        return (np.rint(place / step + last) - last) * step

    def _apply_rules(self) -> None:
        """Touching the gold brick on the ground ends the episode."""
        home = self._touches(self.gold) & self.switched & ~self.stands
        late = (self._age >= self.options.max_steps) & ~home
        for over, reward in ((home, _GOLD), (late, None)):
            (which,) = np.nonzero(over)
            if len(which):
                if reward is not None:
                    self.agents.set_reward(which, reward)
                seen = self._sensors.observe(self._view(which), self.options.senses)
                self.agents.end_episodes(which, seen, interrupted=reward is None)
                self._start_episodes(which)

    def _touches(self, box: int) -> Flags:
        touches: Flags = self.dynamics.reach(self.boxes[:, :, box, None])[:, 0] < _TOUCH
        return touches

    def _start_episodes(self, which: Indices) -> None:
        """Agent, switch, pyramid and stones each in a room of their own, somewhere in it."""
        random, count = self._random, self.options.stone_blocks + 3
        middles = self.rooms.middles
        order = random.permuted(np.tile(np.arange(middles.shape[1]), (len(which), 1)), axis=1)[:, :count]
        reach = self.options.room / 2 - self.options.clear
        places = middles[:, order] + random.uniform(-reach, reach, (2, *order.shape))
        heading = np.radians(random.integers(360, size=len(which)))
        self.dynamics.put(which, places[:, :, 0], heading)
        things = self.boxes[:2, which]
        things[:, :, self.switch], things[:, :, self.pyramid] = places[:, :, 1], places[:, :, 2]
        things[:, :, self.gold] = places[:, :, 2]
        things[:, :, self.stones] = places[:, :, 3:]
        self.boxes[:2, which] = things
        self._there[which, self.pyramid] = False
        self.switched[which] = False
        self._age[which] = 0

    def _request_decisions(self) -> Batches:
        seen = self._sensors.observe(self._view(np.arange(self.areas)), self.options.senses)
        return {BEHAVIOR: self.agents.request_decisions(seen)[0]}

    def _view(self, which: Indices) -> PyramidsView:
        explorers, boxes = self.dynamics, self.boxes[:, which]
        return PyramidsView(
            position=explorers.position[:, which],
            velocity=explorers.velocity[:, which],
            heading=explorers.heading[which],
            stones=boxes[:, :, self.stones],
            switch=boxes[:, :, self.switch],
            switched=self.switched[which],
            pyramid=boxes[:, :, self.pyramid],
            stands=self.stands[which],
            gold=boxes[:, :, self.gold],
            bricks=self.bricks[:, which],
        )
