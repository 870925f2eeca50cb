"""The physics of balls on boxes: PhysX's, as a real Unity player showed it."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from lanista.envs.scenes.physics import GRAVITY, MAX_SPIN, TIME_STEP, Balls, Boxes, from_euler, rotations

TRANSCRIPTS = Path(
    os.environ.get("LANISTA_TRANSCRIPTS") or Path(__file__).parents[2] / "real" / "transcripts"
)
LEVEL = rotations(np.float32([[0], [0], [0], [1]]))


def ball_at(x, y, z, velocity=(0, 0, 0)) -> Balls:
    balls = Balls(1, 2.5)
    balls.motion[:, 0] = [x, y, z, *velocity]
    return balls


def test_a_free_ball_falls_as_in_unity():
    # Velocity first, then position: after five steps 15 g dt² of fall, as real players report.
    balls = ball_at(0, 10, 0)
    for _ in range(5):
        balls.step(LEVEL)
    assert balls.velocity[1, 0] == pytest.approx(-5 * GRAVITY * TIME_STEP, rel=1e-5)
    assert balls.position[1, 0] == pytest.approx(10 - 15 * GRAVITY * TIME_STEP**2, rel=1e-6)


def test_a_ball_comes_to_rest_on_a_level_box_without_bouncing():
    balls = ball_at(0.3, 3.6, -0.2)
    heights = []
    for _ in range(100):
        balls.step(LEVEL)
        heights.append(float(balls.position[1, 0]))
    assert heights[-1] == pytest.approx(3.0, abs=1e-3)
    assert np.all(np.diff(heights[30:]) < 1e-3)
    assert np.abs(balls.velocity).max() < 1e-3


def test_a_ball_rolls_down_a_slope_at_five_sevenths_of_sliding():
    degrees = 12.0
    rotation = rotations(from_euler(np.float32([degrees]), np.float32([0])))
    up = rotation.reshape(3, 3)[:, 1]
    balls = ball_at(*(3.0 * up))
    for _ in range(40):
        balls.step(rotation)
    speed = np.linalg.norm(balls.velocity)
    expected = 5 / 7 * GRAVITY * np.sin(np.radians(degrees)) * 40 * TIME_STEP
    assert speed == pytest.approx(expected, rel=0.01)
    assert np.linalg.norm(balls.spin) == pytest.approx(speed / 0.5, rel=0.01)


def test_a_steep_slope_is_more_than_friction_can_hold():
    rotation = rotations(from_euler(np.float32([75]), np.float32([0])))
    up = rotation.reshape(3, 3)[:, 1]
    balls = ball_at(*(3.0 * up))
    for _ in range(10):
        balls.step(rotation)
    sliding = GRAVITY * (np.sin(np.radians(75)) - 0.6 * np.cos(np.radians(75))) * 10 * TIME_STEP
    assert np.linalg.norm(balls.velocity) == pytest.approx(sliding, rel=0.02)


def test_spin_is_limited_as_unity_limits_it():
    rotation = rotations(from_euler(np.float32([30]), np.float32([0])))
    up = rotation.reshape(3, 3)[:, 1]
    balls = ball_at(*(3.0 * up), velocity=(0, 0, 0))
    for _ in range(60):
        balls.step(rotation)
        balls.position[:, 0] = 3.0 * up
    assert np.linalg.norm(balls.spin) == pytest.approx(MAX_SPIN, rel=1e-3)


def test_balls_do_not_influence_each_other():
    random = np.random.default_rng(0)
    starts = random.uniform(-1.5, 1.5, (6, 40)).astype(np.float32)
    starts[1] = random.uniform(2.8, 4, 40)
    together = Balls(40, 2.5)
    together.motion[:] = starts
    tilts = from_euler(
        random.uniform(-20, 20, 40).astype(np.float32), random.uniform(-20, 20, 40).astype(np.float32)
    )
    for _ in range(30):
        together.step(rotations(tilts))
    for i in range(0, 40, 7):
        alone = ball_at(*starts[:3, i], velocity=starts[3:, i])
        for _ in range(30):
            alone.step(rotations(tilts[:, i : i + 1]))
        np.testing.assert_allclose(alone.motion[:, 0], together.motion[:, i], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("centre", [(0.1, 2.2, 0.2), (2.4, 0, 0), (0, 0, -2.45)])
def test_a_ball_inside_a_box_leaves_it_by_the_nearest_face(centre):
    balls = ball_at(*centre)
    balls.gravity = 0.0
    for _ in range(40):
        balls.step(LEVEL)
    axis = int(np.abs(centre).argmax())
    assert balls.position[axis, 0] * np.sign(centre[axis]) == pytest.approx(3.0, abs=2e-3)


def test_another_radius_keeps_the_spin_and_changes_the_height():
    slope = rotations(from_euler(np.float32([8]), np.float32([0])))
    balls = ball_at(0, 3.03, 0)
    for _ in range(20):
        balls.step(slope)
    spin = balls.spin
    assert np.linalg.norm(spin) > 0.3
    balls.set_radius(np.array([0]), np.float32([1.0]))
    np.testing.assert_allclose(balls.spin, spin, rtol=1e-6)
    for _ in range(30):
        balls.step(LEVEL)
    assert balls.position[1, 0] == pytest.approx(3.5, abs=2e-3)


def test_turns_stop_once_they_are_beyond_the_limit_and_are_free_to_return():
    boxes = Boxes(2, 0.25)
    boxes.command(np.float32([[2, -2], [0, 0]]))
    for _ in range(30):
        boxes.turn()
    # The last turn that was allowed began just below the limit.
    assert np.all(np.abs(boxes.quaternion[2]) >= 0.25)
    assert np.all(np.abs(boxes.quaternion[2]) < 0.25 + np.sin(np.radians(1)))
    boxes.command(np.float32([[-2, 2], [0, 0]]))
    before = boxes.quaternion[2].copy()
    boxes.turn()
    assert np.all(np.abs(boxes.quaternion[2]) < np.abs(before))


def test_a_box_that_was_set_rests_until_it_is_commanded_again():
    boxes = Boxes(2, 0.25)
    boxes.command(np.full((2, 2), 2, np.float32))
    boxes.set(np.array([1]), from_euler(np.float32([3]), np.float32([4])))
    start = boxes.quaternion.copy()
    boxes.turn()
    np.testing.assert_array_equal(boxes.quaternion[:, 1], start[:, 1])
    assert np.any(boxes.quaternion[:, 0] != start[:, 0])


def test_orientations_stay_unit_quaternions_over_an_episode():
    random = np.random.default_rng(3)
    boxes = Boxes(8, 0.25)
    for _ in range(1000):
        boxes.command(random.uniform(-2, 2, (2, 8)).astype(np.float32))
        for _ in range(5):
            boxes.turn()
    np.testing.assert_allclose(np.linalg.norm(boxes.quaternion, axis=0), 1, atol=1e-5)


def recordings() -> list[Path]:
    return [path for path in sorted(TRANSCRIPTS.glob("*.jsonl.gz")) if _lines(path)[0]["scene"] == "3dball"]


def _lines(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Episode:
    """One agent's consecutive decisions: what it saw, and what it did then."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []
        self.done: list[np.ndarray] = []


def recorded_agents(path: Path) -> dict[int, list[Episode]]:
    """The episodes of each agent of a recording, as far as they lie between resets."""
    agents: dict[int, list[Episode]] = {}
    waiting: list[int] = []
    for line in _lines(path):
        if line["kind"] == "steps":
            ended = line["terminal"]["agent_id"]["data"]
            waiting = line["decision"]["agent_id"]["data"]
            for agent in {*ended, *waiting}:
                episodes = agents.setdefault(agent, [Episode()])
                if agent in ended:
                    episodes.append(Episode())
            for agent, obs in zip(waiting, line["decision"]["obs"][0]["data"]):
                agents[agent][-1].seen.append(np.array(obs, np.float32))
        elif line["kind"] == "actions":
            for agent, action in zip(waiting, line["continuous"]["data"]):
                agents[agent][-1].done.append(np.array(action, np.float32))
        elif line["kind"] == "call" and line["op"] == "reset":
            for episodes in agents.values():
                episodes.append(Episode())
    return agents


def start_orientation(z: float, x: float) -> np.ndarray:
    """The quaternion of a box that was turned about x, then about its own z, from two of its components."""
    a = b = 0.0
    for _ in range(50):
        a, b = np.arcsin(x / np.cos(b)), np.arcsin(z / np.cos(a))
    return from_euler(np.float32([np.degrees(2 * a)]), np.float32([np.degrees(2 * b)]))


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.name)
def test_agrees_with_a_real_unity_player(path):
    """Every recorded decision is played again from what the player reported, the spin carried along."""
    turns, positions, velocities = [], [], []
    for episodes in recorded_agents(path).values():
        balls = Balls(1, 2.5)
        balls.angular_drag = 0.01
        for episode in episodes:
            if not episode.seen:
                continue
            boxes = Boxes(1, 0.25)
            boxes.set(slice(None), start_orientation(*episode.seen[0][:2]))
            for seen, action, later in zip(episode.seen, episode.done, episode.seen[1:]):
                balls.motion[:, 0] = seen[2:]
                boxes.command(2 * np.clip(action, -1, 1)[:, None])
                for _ in range(5):
                    balls.step(boxes.turn())
                turns.append(np.abs(boxes.quaternion[[2, 0], 0] - later[:2]).max())
                positions.append(np.abs(balls.position[:, 0] - later[2:5]).max())
                velocities.append(np.abs(balls.velocity[:, 0] - later[5:]).max())
    assert len(turns) > 100
    assert max(turns) < 1e-4
    assert np.median(positions) < 1e-3
    assert np.quantile(positions, 0.95) < 0.02
    assert np.median(velocities) < 0.02
    assert np.quantile(velocities, 0.95) < 0.2
