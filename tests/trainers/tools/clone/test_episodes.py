"""A saved replay becomes the episodes that were played, against steps that refer to their successors."""

from __future__ import annotations

import numpy as np
import pytest
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.storage import FILE, ReplayFileError, save_replay
from lanista.trainers.tools.clone.episodes import replay_episodes
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from replay_steps import BRANCHES, FRAMES, SIDE, Game, layout, rollout_of
from specs import sensor

SPEC = BehaviorSpec([sensor((2,), "vector"), sensor((FRAMES, SIDE, SIDE), "camera")], ActionSpec(2, BRANCHES))
SHAPES = {
    "partly filled": layout(400, longest=7),
    "wrapped": layout(100, longest=7),
    "prioritized": layout(100, longest=7, prioritized=True),
    "sequences": layout(100, longest=7, sequence_length=4, memory_size=3),
    "plain images": layout(100, stacks=1, longest=7),
}


def played(shape, **how):
    """A replay and the steps that it was given, in their order."""
    game = Game(np.random.default_rng(0), memory_size=shape.memory_size, **how)
    own = how.get("own_observation", False)
    replay = Replay(shape, 0.6 if shape.prioritized else None, own_observation=own)
    for k in range(12):
        ends = ["on", "over", "interrupted"]
        calls = [game.trajectory(agent, 7, ends[(k + agent) % 3]) for agent in range(2)]
        replay.append(*rollout_of(calls))
    return replay, game.steps


@pytest.mark.parametrize(
    "name, how", [*((name, {}) for name in SHAPES), ("wrapped", {"own_observation": True})], ids=str
)
@pytest.mark.parametrize("masked", [True, False])
def test_episodes_are_those_that_were_played(tmp_path, name, how, masked):
    replay, steps = played(SHAPES[name], masked=masked, **how)
    save_replay("B", tmp_path, replay, 168)
    found = replay_episodes(tmp_path / FILE, SPEC, 1)
    live = steps[len(steps) - int(replay.columns.real[replay_places(replay)].sum()) :]
    begun = {id(step.following) for step in live if step.following is not None}
    expected = []
    for step in live:
        if id(step) not in begun:
            expected.append([])
            while step is not None:
                expected[-1].append(step)
                step = step.following
    assert len(expected) > 5 and found.lengths.tolist() == [len(episode) for episode in expected]
    rows = [step for episode in expected for step in episode]
    last = [episode[-1] for episode in expected]
    for column, name in (
        (found.obs[0], "vector"),
        (found.obs[1], "stack"),
        (found.continuous, "continuous"),
        (found.discrete, "discrete"),
        (found.action_mask, "mask"),
        (found.done, "ended"),
    ):
        np.testing.assert_array_equal(column, np.stack([getattr(step, name) for step in rows]), name)
    np.testing.assert_array_equal(found.rewards, [step.reward[1] for step in rows])
    np.testing.assert_array_equal(found.next_obs[0], np.stack([step.next_vector for step in last]))
    np.testing.assert_array_equal(found.next_obs[1], np.stack([step.next_stack for step in last]))
    before = [np.zeros(2), *found.continuous[:-1]]
    for first in np.cumsum(found.lengths)[:-1]:
        before[first] = np.zeros(2)
    np.testing.assert_array_equal(found.prev_continuous, np.stack(before))


def replay_places(replay):
    """Of all steps that are held, padding among them."""
    return np.concatenate([np.arange(part.start, part.stop) for part in replay.held()])


def test_what_cannot_be_used_is_refused(tmp_path, monkeypatch):
    path = tmp_path / FILE
    with pytest.raises(FileNotFoundError):
        replay_episodes(path, SPEC, 0)
    replay, _ = played(SHAPES["wrapped"])
    save_replay("B", tmp_path, replay, 1)
    for other, said in (
        (BehaviorSpec(SPEC.observation_specs, ActionSpec(3, BRANCHES)), "its continuous actions are 2, and"),
        (BehaviorSpec(SPEC.observation_specs, ActionSpec(2, (3,))), "its branches are"),
        (BehaviorSpec(SPEC.observation_specs[:1], SPEC.action_spec), "its observations are"),
    ):
        with pytest.raises(ReplayFileError, match=said):
            replay_episodes(path, other, 0)
    with monkeypatch.context() as patched:
        patched.setattr("lanista.trainers.buffers.replay.memory_limit.least_room", lambda: (100, "the box"))
        with pytest.raises(ReplayFileError, match=r"its 100 steps take 2 kB of memory, and the box leaves"):
            replay_episodes(path, SPEC, 0)
    data = path.read_bytes()
    for damaged in (data[:-30], data[:500] + b"?" + data[501:], data[: len(data) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ReplayFileError):
            replay_episodes(path, SPEC, 0)
    save_replay("B", tmp_path, Replay(SHAPES["wrapped"]), 1)
    with pytest.raises(ReplayFileError, match="it holds no steps"):
        replay_episodes(path, SPEC, 0)
