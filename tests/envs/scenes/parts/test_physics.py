"""The physics of balls on boxes: PhysX's, as a real Unity player showed it."""

import numpy as np
import pytest
import transcripts
from lanista.envs.protocol.engine import AgentBatch
from lanista.envs.scenes.parts.physics import (
    GRAVITY,
    MAX_SPIN,
    TIME_STEP,
    Balls,
    Boxes,
    from_euler,
    rotations,
)
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.ball3d import BEHAVIOR, Ball3D

LEVEL = rotations(np.float32([[0], [0], [0], [1]]))


def ball_at(x, y, z, velocity=(0, 0, 0)) -> Balls:
    balls = Balls(1, 2.5)
    balls.motion[:, 0] = [x, y, z, *velocity]
    return balls


def on_slope(degrees):
    """A box that is turned about x, and a ball at rest on it."""
    rotation = rotations(from_euler(np.float32([degrees]), np.float32([0])))
    return rotation, ball_at(*(3.0 * rotation.reshape(3, 3)[:, 1]))


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


@pytest.mark.parametrize(
    ("degrees", "steps", "acceleration"),
    [
        (12, 40, 5 / 7 * GRAVITY * np.sin(np.radians(12))),  # it rolls, at five sevenths of sliding
        (75, 10, GRAVITY * (np.sin(np.radians(75)) - 0.6 * np.cos(np.radians(75)))),  # too steep for friction
    ],
)
def test_a_ball_on_a_slope_rolls_as_far_as_friction_can_hold_it(degrees, steps, acceleration):
    rotation, balls = on_slope(degrees)
    for _ in range(steps):
        balls.step(rotation)
    speed = np.linalg.norm(balls.velocity)
    assert speed == pytest.approx(acceleration * steps * TIME_STEP, rel=0.02)
    if degrees == 12:
        assert np.linalg.norm(balls.spin) == pytest.approx(speed / 0.5, rel=0.01)


def test_friction_acts_where_a_ball_touches_that_is_pressed_in():
    balls = ball_at(0, 2.9, 0)
    balls.angular_drag = 0.0
    balls._roll[2, 0] = speed = 2.0
    balls.step(LEVEL)
    # The point that touches is 0.4 m from the center of a ball of 0.5 m: it is slower, and its lever shorter.
    lever = 0.8
    slip = lever * speed / (1 + lever**2 / 0.4)
    assert abs(balls.position[0, 0]) == pytest.approx(slip * TIME_STEP, rel=1e-3)


def test_spin_is_limited_as_unity_limits_it():
    rotation, balls = on_slope(30)
    for _ in range(60):
        balls.step(rotation)
        balls.position[:, 0] = 3.0 * rotation.reshape(3, 3)[:, 1]
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


@pytest.mark.parametrize("center", [(0.1, 2.2, 0.2), (2.4, 0, 0), (0, 0, -2.45)])
def test_a_ball_inside_a_box_leaves_it_by_the_nearest_face(center):
    balls = ball_at(*center)
    balls.gravity = 0.0
    for _ in range(40):
        balls.step(LEVEL)
    axis = int(np.abs(center).argmax())
    assert balls.position[axis, 0] * np.sign(center[axis]) == pytest.approx(3.0, abs=2e-3)


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


def start_orientation(z: float, x: float) -> np.ndarray:
    """The quaternion of a box that was turned about x, then about its own z, from two of its components."""
    a = b = 0.0
    for _ in range(50):
        a, b = np.arcsin(x / np.cos(b)), np.arcsin(z / np.cos(a))
    return from_euler(np.float32([np.degrees(2 * a)]), np.float32([np.degrees(2 * b)]))


class ReplayedAgent:
    """An agent of a recording, simulated from each of its decisions to the next.

    Position and velocity start from what was reported, the ball's spin, which is not, is carried along: also
    from the last decision to the fall, and into the next episode, whose landing turns it into velocity.
    """

    def __init__(self, gravity: float) -> None:
        self.balls, self.boxes = Balls(1, 2.5), Boxes(1, 0.25)
        self.balls.angular_drag, self.balls.gravity = 0.01, gravity
        self.scale: float | None = None
        self.begins, self.acts = True, False
        self.errors: list[tuple[float, float, float]] = []
        """Of quaternion, position and velocity at each decision within an episode."""

    def begin(self, scale: float | None) -> None:
        """Another episode; `scale` None: that of the first decision."""
        self.scale, self.begins, self.acts = scale, True, False

    def see(self, obs: np.ndarray, scale: float) -> None:
        """A decision: compare with what is simulated, and go on from what was reported."""
        if self.begins:
            self.begins = False
            self.balls.set_radius(np.array([0]), np.float32([(self.scale or scale) / 2]))
            self.boxes.set(slice(None), start_orientation(*obs[:2]))
        elif self.acts:
            for _ in range(5):
                self.balls.step(self.boxes.turn())
            self.errors.append(self._errors(obs))
        self.balls.motion[:, 0] = obs[2:]

    def act(self, action: list[float]) -> None:
        self.boxes.command(2 * np.clip(np.float32(action), -1, 1)[:, None])
        self.acts = True

    def fall(self) -> None:
        """Simulate the steps up to the fall, which ends the episode between two decisions."""
        for _ in range(5 * self.acts):
            rotation = self.boxes.turn()
            x, y, z = self.balls.position[:, 0]
            if y < -2 or max(abs(x), abs(z)) > 3:
                break
            self.balls.step(rotation)

    def _errors(self, obs: np.ndarray) -> tuple[float, float, float]:
        found = (self.boxes.quaternion[[2, 0], 0], self.balls.position[:, 0], self.balls.velocity[:, 0])
        turn, position, velocity = (float(np.abs(a - b).max()) for a, b in zip(found, np.split(obs, [2, 5])))
        return turn, position, velocity


def replay(lines: list[dict]) -> np.ndarray:
    """The errors [n, 3] of a recorded session, with the parameters that its trainer set."""
    agents: dict[int, ReplayedAgent] = {}
    waiting: list[int] = []
    scale, gravity = 1.0, GRAVITY
    for line in lines:
        if line["kind"] == "steps":
            for number in line["terminal"]["agent_id"]["data"]:
                agents[number].fall()
                agents[number].begin(scale)
            waiting = line["decision"]["agent_id"]["data"]
            for number, obs in zip(waiting, line["decision"]["obs"][0]["data"]):
                agents.setdefault(number, ReplayedAgent(gravity)).see(np.float32(obs), scale)
        elif line["kind"] == "actions":
            for number, action in zip(waiting, line["continuous"]["data"]):
                agents[number].act(action)
        elif line["kind"] == "call" and line["op"] == "reset":
            for agent in agents.values():
                agent.begin(None)
        elif line["kind"] == "call" and line["op"] == "environment_parameter_float":
            # Scale is read when an episode begins, gravity at once; mass changes nothing.
            scale = line["value"] if line["key"] == "scale" else scale
            gravity = line["value"] if line["key"] == "gravity" else gravity
            for agent in agents.values():
                agent.balls.gravity = gravity
    return np.array([errors for agent in agents.values() for errors in agent.errors])


RECORDINGS = [path for path in transcripts.FILES if transcripts.lines(path)[0]["scene"] == "3dball"]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_agrees_with_a_real_unity_player(path):
    """Every recorded decision is simulated again from what the player reported."""
    turns, positions, velocities = replay(transcripts.lines(path)).T
    assert len(turns) > 30
    assert turns.max() < 1e-4
    assert np.median(positions) < 1e-3
    assert np.quantile(positions, 0.95) < 0.01
    assert np.median(velocities) < 0.02
    assert np.quantile(velocities, 0.95) < 0.1


def recorded_steps(batch: AgentBatch) -> dict:
    """What a recording says of a message."""
    rows = {"terminal": batch.done, "decision": ~batch.done}
    return {"kind": "steps"} | {
        name: {
            "agent_id": {"data": batch.agent_id[which].tolist()},
            "obs": [{"data": batch.obs[0][which].tolist()}],
        }
        for name, which in rows.items()
    }


@pytest.mark.parametrize(("key", "value"), [("mass", 2.5), ("scale", 0.75), ("gravity", 15.0)])
def test_a_replay_follows_the_parameters_of_its_recording(key, value):
    """A session of the scene itself, which a replay reproduces whatever its trainer sets on the way."""
    world, parameters, random = Ball3D(areas=3), Parameters(), np.random.default_rng(0)
    batch = world.reset(random, parameters)[BEHAVIOR]
    lines = []
    for i in range(100):
        actions = random.uniform(-1, 1, (3, 2)).astype(np.float32)
        lines += [recorded_steps(batch), {"kind": "actions", "continuous": {"data": actions.tolist()}}]
        if i == 40:
            parameters.set(key, value)
            lines.append({"kind": "call", "op": "environment_parameter_float", "key": key, "value": value})
        batch = world.step({BEHAVIOR: (actions, np.zeros((3, 0), np.int32))})[BEHAVIOR]
    turns, positions, _ = replay(lines).T
    assert turns.max() < 1e-6
    assert np.quantile(positions, 0.95) < 1e-3
    assert positions.max() < 0.02
