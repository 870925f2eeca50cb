"""Unity's GridWorld: walk over a grid to the goal that is wanted, seen by a camera from above.

Only the goal signal shows which goal is wanted; the image is the same for either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from numpy.typing import NDArray

from ...protocol.engine import Observed
from ..options import SceneOptions, SceneWorld, option
from ..parts.physics2d import Floats, Indices
from ..parts.sensors import image_spec
from ..world import Actions, Batches, EndedAgents, without_groups

EMPTY, PLUS, EX, AGENT = range(4)
"""What a cell can hold."""

_FLOOR, _LINE, _WALL = (201, 208, 222), (178, 187, 205), (94, 103, 126)
_BODY, _FACE = (52, 104, 224), (120, 162, 250)
_GREEN, _RED = (46, 168, 74), (222, 58, 52)
_FINE = 4
"""The number of points per pixel and direction, of which a pixel is the mean."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A grid of some number of cells along each edge, drawn with every content."""

    images: Pixels
    """The images [4, height, width, 3], each with the same content in all cells."""
    rows: Indices
    """The pixel rows of the cells by z, [cells, tall], the last one repeated where a cell has fewer."""
    columns: Indices
    """The pixel columns of the cells by x, [cells, wide]."""


class GridCamera:
    """A camera with images of one size."""

    def __init__(self, height: int, width: int) -> None:
        """`height`, `width`: of the images, in pixels."""
        self.height, self.width = height, width

    def observe(self, cells: int, where: Indices, what: NDArray[np.int8]) -> Pixels:
        """The images [k, height, width, 3] of k grids of `cells` x `cells`.

        Args:
            cells: The number of cells along each edge.
            where: [k, things, 2], the cells (x, z) in which something is; of two in one the last is seen.
            what: [k, things], `PLUS`, `EX`, `AGENT`, or `EMPTY` for nothing.
        """
        drawn = _draw(cells, self.height, self.width)
        images = np.repeat(drawn.images[EMPTY][None], len(where), axis=0)
        area = np.arange(len(where))[:, None, None]
        for thing in range(where.shape[1]):
            rows = drawn.rows[where[:, thing, 1]][:, :, None]
            columns = drawn.columns[where[:, thing, 0]][:, None, :]
            kind = what[:, thing, None, None].astype(np.intp)
            images[area, rows, columns] = drawn.images[kind, rows, columns]
        return images


@lru_cache(maxsize=16)
def _draw(cells: int, height: int, width: int) -> _Drawn:
    # Where points lie, in cells from the center of the first one; z grows upwards.
    pitch = height / cells
    z = (cells - 1) / 2 - (np.arange(height * _FINE) + 0.5 - height * _FINE / 2) / (_FINE * pitch)
    x = (cells - 1) / 2 + (np.arange(width * _FINE) + 0.5 - width * _FINE / 2) / (_FINE * pitch)
    cell_x, cell_z = _cell_of(x, cells), _cell_of(z, cells)
    inside = (cell_x >= 0) & (cell_z >= 0)[:, None]
    u, v = np.broadcast_arrays(x - np.rint(x), (z - np.rint(z))[:, None])
    images = np.stack([_paint(kind, inside, u, v) for kind in (EMPTY, PLUS, EX, AGENT)])
    fine = images.reshape(4, height, _FINE, width, _FINE, 3)
    return _Drawn(
        np.rint(fine.mean(axis=(2, 4))).astype(np.uint8),
        _pixels_of(cells, height, pitch, upwards=True),
        _pixels_of(cells, width, pitch, upwards=False),
    )


def _cell_of(place: NDArray[np.floating[Any]], cells: int) -> Indices:
    """The cell along one direction, -1 for a wall."""
    cell = np.rint(place).astype(np.intp)
    return np.where((cell >= 0) & (cell < cells), cell, -1)


def _pixels_of(cells: int, size: int, pitch: float, upwards: bool) -> Indices:
    """The pixels [cells, most] of the cells along one direction: those whose centers lie in the cell."""
    place = (np.arange(size) + 0.5 - size / 2) / pitch * (-1 if upwards else 1) + (cells - 1) / 2
    cell = _cell_of(place, cells)
    own = [np.flatnonzero(cell == k) for k in range(cells)]
    most = max(map(len, own))
    return np.array([np.pad(pixels, (0, most - len(pixels)), mode="edge") for pixels in own])


def _paint(
    kind: int, inside: NDArray[np.bool_], u: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The image with `kind` in all cells; `u`, `v`: within the cell, -0.5 to 0.5."""
    image = np.empty((*inside.shape, 3))
    image[:] = _WALL
    image[inside] = _FLOOR
    image[inside & (np.maximum(np.abs(u), np.abs(v)) > 0.46)] = _LINE
    near = np.maximum(np.abs(u), np.abs(v)) < 0.38
    if kind == AGENT:
        image[inside & (np.maximum(np.abs(u), np.abs(v)) < 0.4)] = _BODY
        image[inside & (np.maximum(np.abs(u), np.abs(v)) < 0.2)] = _FACE
    elif kind == PLUS:
        image[inside & near & (np.minimum(np.abs(u), np.abs(v)) < 0.13)] = _GREEN
    elif kind == EX:
        image[inside & near & (np.abs(np.abs(u) - np.abs(v)) < 0.17)] = _RED
    return image


BEHAVIOR = "GridWorld?team=0"

_MOVES = np.array([[0, 0], [0, 1], [0, -1], [-1, 0], [1, 0]])
"""The moves (x, z) of the actions: nothing, up, down, left, right."""
_STEP_REWARD = np.float32(-0.01)
_RIGHT_GOAL, _WRONG_GOAL = np.float32(1), np.float32(-1)
_GOALS = (PLUS, EX)
_MOST_CELLS = 64
"""The most cells along an edge: in an image of 64 rows, one cell to a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridWorldOptions(SceneOptions):
    """Sizes and duration; parameters of the trainer override the first three."""

    scene: ClassVar[str] = "grid"

    areas: int = option(9, "how many grids there are")
    cells: int = option(5, "cells along each edge of a grid; the parameter gridSize wins over it", small=3)
    plus_goals: int = option(1, "green plus signs on a grid; numPlusGoals wins over it", may_be_zero=True)
    ex_goals: int = option(1, "red crosses on a grid; numExGoals wins over it", may_be_zero=True)
    height: int = option(64, "of the camera's images, in pixels", small=24)
    width: int = option(84, "of the camera's images, in pixels; at least the height", small=32)
    max_steps: int = option(100, "actions of an episode", small=30)

    def check(self) -> None:
        """Refuse images that would cut the grid off."""
        if self.width < self.height:
            raise ValueError(
                f"grid: images of {self.width} x {self.height} pixels would cut the grid off; the "
                "width must be at least the height."
            )


class GridWorld(SceneWorld[GridWorldOptions]):
    """Any number of grids, one agent to each. Omitted options take the values of `size`."""

    options_type = GridWorldOptions
    parameters_read = ("gridSize", "numPlusGoals", "numExGoals")

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self._check(options.cells, options.plus_goals, options.ex_goals)
        self._camera = GridCamera(options.height, options.width)
        self.ids = np.arange(areas, dtype=np.int32)
        self.cells = np.full(areas, options.cells)
        """The number of cells along each edge, [areas]."""
        self.places = np.zeros((areas, 1, 2), np.intp)
        """The cells (x, z) of the things, [areas, things, 2]; the agent is the last thing."""
        self.kinds = np.full((areas, 1), AGENT, np.int8)
        """The kinds of the things, [areas, things]; `EMPTY` where a grid has fewer goals than another."""
        self.wanted = np.zeros(areas, np.intp)
        """The goal that is wanted, [areas]: 0 for the plus, 1 for the ex."""

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior: the image, the goal wanted as one of 2, and one branch of 5."""
        camera = image_spec((3, self.options.height, self.options.width), "CameraSensor")
        goal = ObservationSpec((2,), (DimensionProperty.NONE,), ObservationType.GOAL_SIGNAL, "VectorSensor")
        return {BEHAVIOR: BehaviorSpec([camera, goal], ActionSpec.create_discrete((len(_MOVES),)))}

    def step(self, actions: Actions) -> Batches:
        """Make one move of each agent. Actions: [areas, 1]; a move into a wall is none."""
        target = self.places[:, -1] + _MOVES[actions[BEHAVIOR][1][:, 0]]
        free = ((target >= 0) & (target < self.cells[:, None])).all(axis=1)
        self.places[free, -1] = target[free]
        self._age += 1
        entered = (self.places[:, :-1] == self.places[:, -1:]).all(axis=2) & (self.kinds[:, :-1] != EMPTY)
        at_goal = entered.any(axis=1)
        reward = np.full(self.areas, _STEP_REWARD)
        if at_goal.any():
            area, goal = np.nonzero(entered)
            right = self.kinds[area, goal] == np.take(_GOALS, self.wanted[area])
            reward[area] = np.where(right, _RIGHT_GOAL, _WRONG_GOAL)
        interrupted = ~at_goal & (self._age >= self.options.max_steps)
        (over,) = np.nonzero(at_goal | interrupted)
        if not len(over):
            return self._request_decisions(reward)
        end = EndedAgents(self.ids[over], self._observe(over), reward[over], interrupted[over])
        self._start_episodes(over)
        reward[over] = 0
        return self._request_decisions(reward, end)

    def _start_episodes(self, which: Indices) -> None:
        """Choose new places on these grids: goals first, the agent last, then the goal that is wanted."""
        for area in which:
            cells = int(self._parameters.get("gridSize", self.options.cells))
            plus = int(self._parameters.get("numPlusGoals", self.options.plus_goals))
            ex = int(self._parameters.get("numExGoals", self.options.ex_goals))
            self._check(cells, plus, ex)
            self._make_room(plus + ex + 1)
            numbers = self._random.permutation(cells * cells)[: plus + ex + 1]
            self.cells[area] = cells
            self.kinds[area] = EMPTY
            self.kinds[area, : plus + ex] = np.repeat(_GOALS, (plus, ex))
            self.kinds[area, -1] = AGENT
            # What a grid does not have is where its agent is, so that it hides nothing.
            cell = np.stack([numbers // cells, numbers % cells], axis=1)
            self.places[area] = cell[-1]
            self.places[area, : plus + ex] = cell[:-1]
            self.wanted[area] = self._random.integers(2)
        self._age[which] = 0

    def _make_room(self, things: int) -> None:
        """Make room for so many things on each grid."""
        more = things - self.kinds.shape[1]
        if more > 0:
            self.kinds = np.concatenate([np.full((self.areas, more), EMPTY, np.int8), self.kinds], axis=1)
            self.places = np.concatenate([np.zeros((self.areas, more, 2), np.intp), self.places], axis=1)

    def _check(self, cells: int, plus: int, ex: int) -> None:
        """Refuse a grid without room, on which the original would search for places for ever."""
        most = min(_MOST_CELLS, self.options.height)
        if not 1 <= cells <= most or min(plus, ex) < 0 or plus + ex + 1 > cells * cells:
            raise ValueError(
                f"grid: {cells} x {cells} cells (gridSize) with {plus} plus and {ex} ex goals (numPlusGoals, "
                f"numExGoals) make no world; it must have from 1 to {most} cells along an edge, and room for "
                "all goals and the agent."
            )

    def _request_decisions(self, reward: Floats | None = None, *ended: EndedAgents) -> Batches:
        reward = np.zeros(self.areas, np.float32) if reward is None else reward
        obs = self._observe(np.arange(self.areas))
        return {BEHAVIOR: without_groups(self.ids, obs, reward, ended, self._mask())}

    def _observe(self, which: Indices) -> list[Observed]:
        """Images [k, 3, height, width] and goal signals [k, 2]."""
        options = self.options
        images = np.empty((len(which), options.height, options.width, 3), np.uint8)
        sizes = self.cells[which]
        for cells in np.unique(sizes):
            same = np.flatnonzero(sizes == cells)
            areas = which[same]
            images[same] = self._camera.observe(int(cells), self.places[areas], self.kinds[areas])
        return [images.transpose(0, 3, 1, 2), np.eye(2, dtype=np.float32)[self.wanted[which]]]

    def _mask(self) -> NDArray[np.bool_]:
        """The action mask [areas, 5], True for moves that would leave the grid."""
        target = self.places[:, -1:] + _MOVES
        leaves: NDArray[np.bool_] = ((target < 0) | (target >= self.cells[:, None, None])).any(axis=2)
        return leaves
