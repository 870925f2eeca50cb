"""Some trajectories of a rollout are what a rollout of these trajectories alone is."""

import numpy as np
import pytest
from lanista.agent_processor.rollout import build_rollout, select_trajectories
from simple_engine import SimpleEngine


def grouped_trajectories():
    """Those of a team of three and one of two, in turns; team-mates' steps are in each other's."""
    engine = SimpleEngine(2)
    trajectories = []
    for _ in range(5):
        trajectories += engine.step([1, 2, 3], group=1, env=0)
        trajectories += engine.step([4, 5], group=1, env=1)
    return trajectories + engine.step([], end=[1, 2, 3], group=1, env=0)


@pytest.mark.parametrize("with_teammates", [False, True])
def test_only_some_of_them(with_teammates):
    trajectories = grouped_trajectories()
    keep = np.arange(len(trajectories)) % 3 != 1
    part = select_trajectories(build_rollout(trajectories, with_teammates), keep)
    alone = build_rollout([t for t, stays in zip(trajectories, keep) if stays], with_teammates)
    own = slice(alone.steps)
    for name in ("numbers", "continuous", "discrete", "log_probs", "reward", "group_reward", "done"):
        np.testing.assert_array_equal(getattr(part, name)[own], getattr(alone, name)[own])
    for name in ("lengths", "next_teammates", "done_reached", "interrupted_at_end", "all_group_dones"):
        np.testing.assert_array_equal(getattr(part, name), getattr(alone, name))
    assert part.agents == alone.agents
    for a, b in zip(
        [*part.next_obs, *(part.next_teammates_obs or [])],
        [*alone.next_obs, *(alone.next_teammates_obs or [])],
    ):
        width = min(a.shape[1], b.shape[1]) if a.ndim > 2 else a.shape[1]
        np.testing.assert_array_equal(a[:, :width], b[:, :width])
    if not with_teammates:
        assert part.teammates is None and len(part.reward) == part.steps
        return
    there = alone.teammates >= 0
    assert there.any()
    np.testing.assert_array_equal(part.teammates[:, : alone.teammates.shape[1]] >= 0, there)
    np.testing.assert_array_equal(
        part.numbers[part.teammates[:, : alone.teammates.shape[1]][there]],
        alone.numbers[alone.teammates[there]],
    )
