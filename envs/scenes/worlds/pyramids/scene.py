"""Unity's Pyramids: find the switch, and the gold brick on the pyramid that it builds somewhere else.

Nothing but the gold brick is rewarded, and nothing tells where switch and pyramid are: a task for curiosity.
Numbers, sensors and rewards are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ...agents import Soloists
from ...options import SceneSetting, choose
from ...world import Actions, Batches, Parameters, World
from ..push_block.dynamics import DECISION_PERIOD, check_length
from .dynamics import RADIUS, Explorers, Rooms
from .sensors import LOOSE_BRICKS, PyramidSenses, View

BEHAVIOR = "Pyramids?team=0"

_GOLD = 2.0
"""What the gold brick pays."""
_TOUCH = 0.02
"""Metres: colliders' contact offsets."""
_STONE_HALF, _SWITCH_HALF, _PYRAMID_HALF, _BRICK_HALF = 1.5, 0.75, 1.5, 0.5
"""Half the edges; ours."""
_LEAST_ROOM = 6.0
_SCATTER = 3.0
"""Metres within which the bricks of a pyramid fall."""

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Setting(SceneSetting):
    """How large, how fast and how long everything is."""

    senses: str
    """What agents observe."""
    rooms: int
    """Along each edge."""
    room: float
    """Metres along each edge of a room."""
    wall: float
    """How thick walls between rooms are."""
    door: float
    """How wide the doorways are."""
    clear: float
    """Metres from a room's walls within which nothing is placed."""
    stone_blocks: int
    """How many pyramids of stone stand in rooms of their own."""
    speed: float
    """What an action adds to the velocity in a physics step, m/s."""
    knock: float
    """How fast a pyramid must be run into, so that it falls, m/s."""
    max_steps: int
    """Physics steps of an episode."""


SETTINGS = {
    "full": Setting("rays", 3, 25.0, 5.0, 18.0, 0.6, 6, 2.0, 5.0, 5000),
    "small": Setting("vector", 2, 8.0, 1.0, 3.0, 1.9, 0, 1.0, 10.0, 1500),
}


class Pyramids(World):
    """Any number of areas, one agent to each. Options that are not given are as `size` says."""

    def __init__(
        self,
        areas: int = 16,
        size: str = "full",
        rooms: int = 0,
        room: float = 0.0,
        wall: float = 0.0,
        door: float = 0.0,
        clear: float = 0.0,
        stone_blocks: int = -1,
        speed: float = 0.0,
        knock: float = 0.0,
        max_steps: int = 0,
        senses: str = "",
    ) -> None:
        """What is left at its default is as `size` says.

        `areas`: how many areas there are.
        `size`: full is the original, small is for learning within minutes.
        `rooms`: along each edge of an area.
        `room`: metres along each edge of a room.
        `wall`: metres of the walls between rooms.
        `door`: metres of the doorways in their middles.
        `clear`: metres from a room's walls within which nothing is placed.
        `stone_blocks`: pyramids of stone, each in a room of its own.
        `speed`: metres per second that an action adds in each physics step.
        `knock`: metres per second at which a pyramid falls that is run into.
        `max_steps`: physics steps of an episode.
        `senses`: rays (three fans of rays and the own velocity) or vector (places of everything).
        """
        given = {
            "rooms": rooms,
            "room": room,
            "wall": wall,
            "door": door,
            "clear": clear,
            "stone_blocks": stone_blocks,
            "speed": speed,
            "knock": knock,
            "max_steps": max_steps,
            "senses": senses,
        }
        self.setting = setting = choose("pyramids", SETTINGS, size, areas, given)
        check_length("pyramids", setting.max_steps)
        _check_room(setting)
        self.areas = areas
        self.rooms = Rooms(setting.rooms, setting.room, setting.wall, setting.door)
        self.walls = self.rooms.walls
        self.explorers = Explorers(areas, setting.speed)
        self.agents = Soloists(areas)
        count, stones = self.walls.shape[1], setting.stone_blocks
        self.stones = slice(count, count + stones)
        self.switch, self.pyramid, self.gold = count + stones, count + stones + 1, count + stones + 2
        """Where in `boxes` things are; the walls come first."""
        self.boxes: Array = np.zeros((4, areas, count + stones + 3))
        """All that stands in each area [4, areas, n]: centre x, z, half the edges."""
        self.boxes[:, :, :count] = self.walls[:, None]
        self.boxes[2:, :, self.stones] = _STONE_HALF
        self.boxes[2:, :, self.switch] = _SWITCH_HALF
        self.boxes[2:, :, self.pyramid] = _PYRAMID_HALF
        self.boxes[2:, :, self.gold] = _BRICK_HALF
        self._there: Flags = np.ones(self.boxes.shape[1:], np.bool_)
        # The gold brick hinders nobody: who touches it is done.
        self._there[:, self.gold] = False
        self.switched: Flags = np.zeros(areas, np.bool_)
        """[areas], whether the switch is on."""
        self.bricks: Array = np.zeros((2, areas, LOOSE_BRICKS))
        """Where the bricks of pyramids that fell lie."""
        self._senses = PyramidSenses(self.walls, self.rooms.half, stones)
        self._age = np.zeros(areas, np.intp)
        self._random = np.random.default_rng(0)

    @property
    def stands(self) -> Flags:
        """[areas], whether the pyramid does."""
        return self._there[:, self.pyramid]

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behaviour of one branch of 5: nothing, forward, back, turn right, turn left."""
        return {
            BEHAVIOR: BehaviorSpec(self._senses.specs(self.setting.senses), ActionSpec.create_discrete((5,)))
        }

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Begin an episode in every area."""
        self._random = random
        self.agents.reset()
        self._begin(np.arange(self.areas))
        return self._ask()

    def step(self, actions: Actions) -> Batches:
        """Walk for one decision period. Actions: [areas, 1], one of 5."""
        self.explorers.command(actions[BEHAVIOR][1][:, 0])
        for _ in range(DECISION_PERIOD):
            hits = self.explorers.step(self.boxes, self._there)
            self._age += 1
            self.agents.earn(-1 / self.setting.max_steps)
            self._press()
            self._knock(*hits)
            self._judge()
        return self._ask()

    def _press(self) -> None:
        """The first touch of the switch builds the pyramid, with the gold brick on it."""
        touched = self._touches(self.switch) & ~self.switched
        self.switched |= touched
        self._there[touched, self.pyramid] = True

    def _knock(self, areas: Indices, boxes: Indices, speeds: Array) -> None:
        """Pyramids that are run into fall: the gold brick then lies behind them, other bricks around."""
        falls = (boxes == self.pyramid) & (speeds >= self.setting.knock)
        if not falls.any():
            return
        which = np.unique(areas[falls])
        self._there[which, self.pyramid] = False
        middle = self.boxes[:2, which, self.pyramid]
        way = middle - self.explorers.position[:, which]
        thrown = middle + way / np.maximum(np.hypot(way[0], way[1]), 1e-9) * _PYRAMID_HALF
        # Not into a wall: a room's middle is where the room is.
        room = self._room_of(middle)
        reach = self.setting.room / 2 - 2 * RADIUS
        self.boxes[:2, which, self.gold] = room + np.minimum(np.maximum(thrown - room, -reach), reach)
        scattered = self._random.uniform(-_SCATTER, _SCATTER, (2, len(which), LOOSE_BRICKS))
        self.bricks[:, which] = middle[:, :, None] + scattered

    def _room_of(self, place: Array) -> Array:
        """The middles [2, k] of the rooms in which places [2, k] are."""
        step, last = self.setting.room + self.setting.wall, (self.setting.rooms - 1) / 2
        return (np.rint(place / step + last) - last) * step

    def _judge(self) -> None:
        """Who touches the gold brick on the ground is done."""
        home = self._touches(self.gold) & self.switched & ~self.stands
        late = (self._age >= self.setting.max_steps) & ~home
        for over, reward in ((home, _GOLD), (late, None)):
            (which,) = np.nonzero(over)
            if len(which):
                if reward is not None:
                    self.agents.settle(which, reward)
                seen = self._senses.look(self._view(which), self.setting.senses)
                self.agents.end(which, seen, interrupted=reward is None)
                self._begin(which)

    def _touches(self, box: int) -> Flags:
        touches: Flags = self.explorers.reach(self.boxes[:, :, box, None])[:, 0] < _TOUCH
        return touches

    def _begin(self, which: Indices) -> None:
        """Agent, switch, pyramid and stones each in a room of their own, somewhere in it."""
        random, count = self._random, self.setting.stone_blocks + 3
        middles = self.rooms.middles
        order = random.permuted(np.tile(np.arange(middles.shape[1]), (len(which), 1)), axis=1)[:, :count]
        reach = self.setting.room / 2 - self.setting.clear
        places = middles[:, order] + random.uniform(-reach, reach, (2, *order.shape))
        heading = np.radians(random.integers(360, size=len(which)))
        self.explorers.put(which, places[:, :, 0], heading)
        things = self.boxes[:2, which]
        things[:, :, self.switch], things[:, :, self.pyramid] = places[:, :, 1], places[:, :, 2]
        things[:, :, self.gold] = places[:, :, 2]
        things[:, :, self.stones] = places[:, :, 3:]
        self.boxes[:2, which] = things
        self._there[which, self.pyramid] = False
        self.switched[which] = False
        self._age[which] = 0

    def _ask(self) -> Batches:
        seen = self._senses.look(self._view(np.arange(self.areas)), self.setting.senses)
        return {BEHAVIOR: self.agents.ask(seen)[0]}

    def _view(self, which: Indices) -> View:
        explorers, boxes = self.explorers, self.boxes[:, which]
        return View(
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


def _check_room(setting: Setting) -> None:
    """Refuse areas in which things do not fit.

    Raises:
        ValueError: The message says what does not fit into what.
    """
    needed, found = setting.stone_blocks + 3, setting.rooms**2
    if found < needed:
        raise ValueError(
            f"pyramids: {setting.rooms} x {setting.rooms} rooms are fewer than the {needed} that an agent, a "
            f"switch, a pyramid and {setting.stone_blocks} stone-blocks need, one to each."
        )
    if setting.room < _LEAST_ROOM or not 2 * RADIUS < setting.door <= setting.room:
        raise ValueError(
            f"pyramids: a room of {setting.room:g} m with doorways of {setting.door:g} m; rooms must have at "
            f"least {_LEAST_ROOM:g} m, and doorways more than {2 * RADIUS:g} m and not more than a room."
        )
    if 2 * setting.clear > setting.room:
        raise ValueError(
            f"pyramids: with {setting.clear:g} m clear of the walls a room of {setting.room:g} m has no "
            "place left; clear must be at most half of the room."
        )
