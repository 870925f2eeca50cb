"""The image of DungeonEscape: dungeons with agents, dragons, keys and doors."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.dungeon_escape import COLUMN, DOOR_HALF, DRAGON_RADIUS, KEY_RADIUS, PORTAL_RADIUS, DungeonEscape
from .canvas import Color
from .push_block import TILE, CarryingFigure, agent_figure, draw_figures, draw_ground, start_drawing

_DRAGON: Color = (220, 62, 66)
_KEY: Color = (255, 204, 64)
_DOOR: Color = (176, 120, 84)
_PORTAL: Color = (150, 84, 214)
_STONE: Color = (128, 138, 164)
_CIRCLE = np.linspace(0, 2 * np.pi, 32, endpoint=False)


def draw_dungeons(size: tuple[int, int], world: DungeonEscape) -> NDArray[np.uint8]:
    """Every dungeon, [height, width, 3]: dragons are red, doors brown, portals violet, keys yellow."""
    canvas, areas = start_drawing(size, world.areas, world.bodies.half, world.turned)
    for k, area in areas:
        draw_ground(canvas, area)
        ring = np.stack([np.cos(_CIRCLE), np.sin(_CIRCLE)], axis=1) * PORTAL_RADIUS
        for share, color in ((1.25, TILE), (1.0, _PORTAL), (0.6, (196, 148, 240))):
            canvas.polygon(np.array([area.at(x, z) for x, z in world.portal + share * ring]), color)
        figures = [
            CarryingFigure(area.box(place, (COLUMN.half, 1.5, COLUMN.half), _STONE))
            for place in world.columns.T
        ]
        for m, alive in enumerate(world.groups.alive[k]):
            if alive:
                burden = _KEY if world.has_key[k, m] else None
                place = world.bodies.pose[:2, k, m]
                figures.append(agent_figure(area, m, place, world.motion_control.heading[k, m], burden))
        door = area.box(world.door, (DOOR_HALF[0], 1.1, DOOR_HALF[1]), _DOOR)
        figures.append(CarryingFigure(door))
        if world.dragon_lives[k]:
            half = (DRAGON_RADIUS, 0.9, DRAGON_RADIUS)
            way = world.portal - world.dragon[:, k]
            angle = float(np.arctan2(way[1], way[0]) + np.pi / 2)
            body = area.box(world.dragon[:, k], half, _DRAGON, angle)
            figures.append(CarryingFigure(body, looks=area.at(world.portal[0], world.portal[1], 0.9)))
        if world.key_lies[k]:
            half = (KEY_RADIUS * 0.7,) * 3
            figures.append(CarryingFigure(area.box(world.key[:, k], half, _KEY), burden=_KEY, is_ball=True))
        if not np.isnan(world.tomb[0, k]):
            figures.append(CarryingFigure(area.box(world.tomb[:, k], (0.35, 0.5, 0.12), _STONE)))
        draw_figures(canvas, area, figures)
    return canvas.finish()
