"""Unity's Pyramids: find the switch, and the gold brick on the pyramid that it builds somewhere else.

Nothing but the gold brick is rewarded, and nothing shows where switch and pyramid are: a task for curiosity.
Numbers, sensors and rewards are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec

from ...agents import IndependentAgents
from ...options import SceneOptions, SceneWorld, option, senses_option
from ...physics2d import DECISION_PERIOD, Array, Flags, Indices
from ...world import Actions, Batches
from .dynamics import RADIUS, PyramidsDynamics, Rooms
from .sensors import LOOSE_BRICKS, PyramidsSensors, PyramidsView

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
