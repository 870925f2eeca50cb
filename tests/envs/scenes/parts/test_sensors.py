"""What agents on a ground see."""

import numpy as np
import pytest
from lanista.envs.scenes.parts.sensors import (
    FrameStack,
    GridSensor,
    RaySensor,
    RayTargets,
    rigid_body,
    seen_from,
)

HERE = np.zeros((2, 1, 1))
AHEAD = np.zeros((1, 1))
RIGHT = np.full((1, 1), np.pi / 2)


def circles_around(*places, half=12.5, tag=2):
    """Circles of radius 0.5 on a ground with nothing else."""
    circles = np.array([[(x, z, 0.5) for x, z in places]], float).reshape(1, -1, 3).transpose(2, 0, 1)
    count = circles.shape[2]
    return RayTargets(
        half, circles, np.full(count, tag), np.zeros((4, 1, 0)), np.zeros(0, np.intp),
        np.zeros((1, 1, count), bool),
    )  # fmt: skip


@pytest.fixture
def rays():
    return RaySensor(per_side=7, degrees=60, length=40, tags=6)


def look(rays, around, position=HERE, heading=AHEAD):
    return rays.observe(position, heading, around).reshape(15, 8)


def test_a_rigid_body_is_its_position_its_rotation_and_its_velocity():
    position, velocity = np.array([[[3.0]], [[-4.0]]]), np.array([[[1.0]], [[2.0]]])
    (obs,) = rigid_body(position, RIGHT, velocity)[0]
    half_turn = np.sin(np.pi / 4)
    np.testing.assert_allclose(obs, [3, 0.5, -4, 0, half_turn, 0, half_turn, 1, 0, 2], rtol=1e-6)


def test_right_and_ahead_turn_with_the_agent():
    target = np.array([[[2.0]], [[5.0]]])
    np.testing.assert_allclose(seen_from(HERE, AHEAD, target).ravel(), [2, 5])
    np.testing.assert_allclose(seen_from(HERE, RIGHT, target).ravel(), [-5, 2], atol=1e-12)


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        # A sphere of half a meter against a circle of half a meter, 5 m away: it flies 4 m.
        (circles_around((0, 10), (0, 5)), [0, 0, 1, 0, 0, 0, 0, 4 / 40]),
        (circles_around(half=100), [0, 0, 0, 0, 0, 0, 1, 1]),
        (circles_around(), [1, 0, 0, 0, 0, 0, 0, 12 / 40]),
        (circles_around((0, 5), tag=-1), [0, 0, 0, 0, 0, 0, 0, 4 / 40]),
    ],
    ids=["the nearest", "nothing", "the wall", "what has no tag"],
)
def test_a_ray_has_what_it_hit_and_how_far_as_a_share_of_its_length(rays, around, expected):
    assert rays.size == (6 + 2) * 15 == 120
    np.testing.assert_allclose(look(rays, around)[0], expected, rtol=1e-6)


def test_the_middle_ray_comes_first_then_right_and_left_alternate(rays):
    degrees = np.radians(60 / 7)
    right = (10 * np.sin(degrees), 10 * np.cos(degrees))
    left = (-10 * np.sin(2 * degrees), 10 * np.cos(2 * degrees))
    assert look(rays, circles_around((0, 10)))[0, 2] == 1
    np.testing.assert_array_equal(np.nonzero(look(rays, circles_around(right))[:, 2])[0], [1])
    np.testing.assert_array_equal(np.nonzero(look(rays, circles_around(left))[:, 2])[0], [4])


def test_rays_hit_boxes(rays):
    boxes = np.array([0, 6, 1, 1.0]).reshape(4, 1, 1)
    around = RayTargets(
        12.5, np.zeros((3, 1, 0)), np.zeros(0, np.intp), boxes, np.array([4]), np.zeros((1, 1, 1), bool)
    )
    (ray, *_) = look(rays, around)
    np.testing.assert_allclose(ray, [0, 0, 0, 0, 1, 0, 0, 4.5 / 40], rtol=1e-6)


def test_what_is_absent_for_an_agent_is_not_seen(rays):
    around = circles_around((0, 5))
    around.absent[:] = True
    assert look(rays, around)[0, 2] == 0


def paint(grid, *squares, heading=AHEAD, present=True):
    """One channel with the squares (x, z, angle, half)."""
    seen = np.full((1, 1, len(squares)), present)
    channels = np.zeros((1, 1, 1, grid.cells, grid.cells), np.float32)
    columns = np.array(squares, float).T[:, None]
    grid.paint(channels, HERE, heading, columns, seen, np.zeros(len(squares), np.intp))
    return channels[0, 0, 0]


def cells(image):
    return [(int(row), int(column)) for row, column in zip(*np.nonzero(image))]


def test_grid_has_the_far_cells_first_and_the_left_ones_first():
    grid = GridSensor(20, ahead=10)
    assert cells(paint(grid, (0.5, 19.5, 0, 0.3))) == [(0, 10)]
    assert cells(paint(grid, (-9.5, 0.5, 0, 0.3))) == [(19, 0)]
    assert cells(paint(grid, (9.5, 0.5, 0, 0.3))) == [(19, 19)]


def test_grid_turns_with_the_agent():
    grid = GridSensor(20, ahead=10)
    assert cells(paint(grid, (4.5, 0.5, 0, 0.3), heading=RIGHT)) == [(15, 9)]
    assert cells(paint(grid, (-4.5, 0.5, 0, 0.3), heading=RIGHT)) == []


@pytest.mark.parametrize(("half", "angle"), [(0.5, 0.0), (1.0, 0.4), (1.5, 0.7)])
def test_a_square_fills_the_cells_that_it_covers(half, angle):
    grid = GridSensor(20, ahead=10)
    image = paint(grid, (1.3, 7.2, angle, half))
    area = image.sum()
    assert (2 * half) ** 2 <= area <= (2 * half + 1.6) ** 2
    for row, column in cells(image):
        assert np.hypot(column - 9.5 - 1.3, 19.5 - row - 7.2) < (half + 0.5) * np.sqrt(2)


def test_grid_shows_parts_of_what_reaches_over_its_edge_and_nothing_of_what_is_gone():
    grid = GridSensor(20, ahead=10)
    assert paint(grid, (0, 21, 0, 1.5)).sum() == 3 or paint(grid, (0, 21, 0, 1.5)).sum() == 4
    assert paint(grid, (0, 30, 0, 1.5)).sum() == 0
    assert paint(grid, (0, 10, 0, 1.5), present=False).sum() == 0


def test_cells_lie_where_the_agent_looks():
    grid = GridSensor(20, ahead=10)
    x, z = grid.middles(np.array([[[1.0]], [[2.0]]]), RIGHT)[:, 0, 0]
    # The far left cell: 19.5 m ahead (along x), 9.5 m to the left (along z).
    np.testing.assert_allclose([x[0, 0], z[0, 0]], [20.5, 11.5], rtol=1e-6)


def test_a_stack_gives_the_oldest_frame_first_and_zeros_before_the_episode():
    stack = FrameStack(2, 1, frames=3, size=1)
    for value in (1, 2):
        seen = stack.push(np.full((2, 1, 1), value, np.float32))
    np.testing.assert_array_equal(seen[:, 0], [[0, 1, 2]] * 2)
    peeked = stack.peek(np.array([1]), np.full((1, 1, 1), 3, np.float32))
    np.testing.assert_array_equal(peeked[0, 0], [1, 2, 3])
    stack.clear(np.array([0]))
    seen = stack.push(np.full((2, 1, 1), 4, np.float32))
    np.testing.assert_array_equal(seen[:, 0], [[0, 0, 4], [1, 2, 4]])
